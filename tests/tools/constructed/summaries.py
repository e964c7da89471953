"""A small summary of every analysis, for what all figures and tables have in common."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import polars as pl

from anchorflow.analyses.ablation.summarize import summarize_ablation
from anchorflow.analyses.additivity.summarize import summarize_additivity
from anchorflow.analyses.attention import ATTENTION_SUMMARY
from anchorflow.analyses.confusion.summarize import summarize_confusion
from anchorflow.analyses.cutoff.summarize import summarize_cutoff
from anchorflow.analyses.faithfulness.summarize import summarize_faithfulness
from anchorflow.analyses.flow import FLOW_SUMMARY
from anchorflow.analyses.flow.summarize import measures
from anchorflow.analyses.heads.summarize import summarize_heads
from anchorflow.analyses.isolation.summarize import summarize_isolation
from anchorflow.analyses.knockout.summarize import summarize_knockout
from anchorflow.analyses.perturbations.summarize import summarize_perturbations
from anchorflow.analyses.transplant.summarize import summarize_transplant
from anchorflow.analyses.vectors.summarize import summarize_vectors
from anchorflow.config.table import Table
from anchorflow.schemas.frames import frame_schema
from constructed import (
    compression,
    confusion,
    interventions,
    kernel,
    label_words,
    orders,
    override,
    perturbations,
    retrieval,
    theory,
    timing,
    vectors,
)
from constructed.additivity import of_additivity
from constructed.heads import ablation, heads
from constructed.interventions import prompts

LAYERS = range(12)
MANY = [f"task {number}" for number in range(9)]


def of_many(summary: pl.DataFrame) -> pl.DataFrame:
    """The rows of a summary's first task for each of nine tasks, and its rows of the average."""
    first = summary.filter(task=summary["task"][0])
    rows = [first.with_columns(task=pl.lit(task)) for task in MANY]
    return pl.concat([*rows, summary.filter(task="average")])


def with_a_task_skipped_whole(summary: pl.DataFrame) -> pl.DataFrame:
    """A summary with another task before its first one, all of whose prompts are too long."""
    counts = [name for name in ("examples", "texts", "seeds") if name in summary.columns]
    gone = summary.filter(task=summary["task"][0]).with_columns(
        pl.lit("gone").alias("task"),
        *(pl.lit(None, pl.Float64).alias(name) for name in ("mean", "low", "high")),
        *(pl.lit(0, pl.Int32).alias(name) for name in counts),
    )
    return pl.concat([gone, summary])


def by_layer(table: Table, *keys: Mapping[str, str]) -> pl.DataFrame:
    """A summary whose values are all alike, with one row per layer for each of ``keys``."""
    rows = [
        {"model": "m", "task": task, "layer": layer, **key, "mean": 0.4, "low": 0.3, "high": 0.5}
        | {"examples": 6, "texts": 3, "seeds": 2, "skipped": 0, "unpredicted": 0}
        for task in ("one", "average")
        for layer in LAYERS
        for key in keys
    ]
    columns = frame_schema(table)
    return pl.DataFrame(rows).select(pl.col(name).cast(columns[name]) for name in columns)


def confused(classes: int) -> pl.DataFrame:
    """The summary of a task with so many labels, of which no two pairs are equally far apart."""
    far = [0.1 + pair / 1000 for pair in range(classes * (classes - 1) // 2)]
    predictions, diagnosis = confusion.cell("one", 0, classes, far)
    return summarize_confusion(predictions, diagnosis, confusion.prompts_of(predictions), 0.9)


_OF_HEADS = {(layer, head): [layer - head / 2, 1.0] for layer in range(3) for head in range(4)}
_CUTS = {(edges, control, 0): [0.3, 0.4] for edges in ("label_to_target", "text_to_label")
         for control in (False, True)}  # fmt: skip
_TAKEN = {(what, "label", 0): [0.75, 0.5] for what in ("keys_values", "residual")}
_ABLATED = {("label_copy", control, 0, share): [1, int(control)] for control in (False, True)
            for share in (0.1, 0.2)}  # fmt: skip
_TOLD = {name: [0.1, 0.3, 0.2] for name in ("saliency", "gradient", "attention", "integrated")}

_PUT = {vectors.RECIPIENT: [0.25, 0.25, 0.5], vectors.FULL: [0.75, 0.5, 0.75]}
_PUT |= {vectors.put(of, "own", layer): [0.5, 0.25, 0.75]
         for of in ("task", "function", "local") for layer in (2, 5)}  # fmt: skip

SUMMARIES: dict[str, Callable[[], pl.DataFrame]] = {
    "ablation": lambda: summarize_ablation(ablation(_ABLATED, [1, 1], [0, 1]), prompts(), 0.9),
    "additivity": lambda: summarize_additivity(
        of_additivity({kind: [0.5, 1.5] for kind in ("one", "deranged", "composed", "whole")}),
        prompts(),
        0.9,
    ),
    "attention": lambda: by_layer(
        ATTENTION_SUMMARY, *({"measure": name} for name in ATTENTION_SUMMARY.measured)
    ),
    "compression": compression.summary_of_the_paper_s_tasks,
    "confusion": partial(confused, 6),
    "cutoff": lambda: summarize_cutoff(
        interventions.cutoff({"first": [[0, 1], [1, 1]]}, [1, 1]), prompts(), 0.9
    ),
    "faithfulness": lambda: summarize_faithfulness(
        interventions.faithfulness(_TOLD), interventions.cuts([1.0, 2.0, 3.0]), prompts(), 0.9
    ),
    "flow": lambda: by_layer(
        FLOW_SUMMARY, *({"flow": name, "scale": scale} for name, scale in measures())
    ),
    "heads": lambda: summarize_heads(heads({"direct": _OF_HEADS}), prompts(), 0.9),
    "isolation": lambda: summarize_isolation(
        interventions.isolation(), interventions.isolation_prompts(), 0.9
    ),
    "kernel": kernel.heads_summary,
    "knockout": lambda: summarize_knockout(
        interventions.knockout(_CUTS, [0.5, 0.25], ("single", 0, 1)), prompts(), 0.9
    ),
    "label_words": label_words.summary,
    "landing": kernel.landing_summary,
    "orders": orders.summary,
    "override": override.example,
    "perturbations": lambda: summarize_perturbations(
        **perturbations.tables_of("news", 2), confidence=0.9
    ),
    "probes": kernel.probes_summary,
    "regressors": kernel.regressors_summary,
    "retrieval": retrieval.with_a_task_skipped_whole,
    "theory": theory.summary,
    "transplant": lambda: summarize_transplant(
        interventions.transplant(_TAKEN, [0.25, 0.25], [0.75, 0.5]), prompts(), 0.9
    ),
    "vectors": lambda: summarize_vectors(
        vectors.answers(_PUT), vectors.similarity({2: [0.5, 0.25]}), prompts(), 0.9
    ),
}


def shown(name: str, summary: pl.DataFrame, wanted: Any) -> dict[str, Any]:
    """The summary and what else a figure wants of it: labels, or label words."""
    labels = 6 if name == "confusion" else 2
    tasks = [] if name == "theory" else [t for t in summary["task"].unique() if t != "average"]
    known = {
        "labels": {task: [f" label {number}" for number in range(labels)] for task in tasks},
        "words": dict.fromkeys(tasks, label_words.WORDS["mine"]),
    }
    return {"summary": summary, **{key: known[key] for key in known if key in wanted}}


def timed(tasks: list[str]) -> dict[str, pl.DataFrame]:
    """Times and the retention of what they were measured of, for the figure of both."""
    timings = pl.concat([timing.timings_of(task, 30) for task in tasks])
    return {"timing": timings, "compression": timing.retention_of(tasks)}
