"""What a model does with chance beside it, and what was run: how much, and how long it took.

With the answers, these are the sections of a run's summary.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from anchorflow.prepare.described_texts import distinct_draws, of_labels, remarks
from anchorflow.present.page import cell
from anchorflow.schemas.texts import SPLITS
from anchorflow.statistics.by_task import AVERAGE
from anchorflow.summary.answers import LEGEND, questions, surprises
from anchorflow.summary.page import BACKTICK, Section

# Accuracies by column: the summary that has it, and its rows.
_ACCURACIES = {
    "most frequent label": ("accuracy", {"measure": "majority"}),
    "plain": ("accuracy", {"measure": "accuracy"}),
    "bias removed": ("reweighting", {"measure": "accuracy", "method": "bias_removed"}),
    "re-weighted": ("reweighting", {"measure": "accuracy", "method": "reweighted"}),
    "from anchors": ("compression", {"measure": "accuracy", "method": "hidden_anchor"}),
    "nearest texts": ("retrieval", {"measure": "accuracy", "choice": "nearest"}),
}
ACCURACY_NOTE = (
    "chance: 1 / number of labels; most frequent label: always answering the one that is most "
    "frequent among the test texts; plain: in-context learning as usual; bias removed: without "
    "each label's mean log probability over the training texts; re-weighted: with fitted "
    "weights of the attention to label words; from anchors: with the keys and values of label "
    "words and template only; nearest texts: with the most similar training texts as "
    "demonstrations. Ways may have been measured on different numbers of texts; see below."
)
# Other demonstrations than in plain in-context learning, by table and value of its second column.
_OTHER = {
    ("reweighting", "many"): "with more demonstrations",
    ("retrieval", "nearest"): "with the nearest training texts as demonstrations",
    ("retrieval", "nearest_per_label"): "with each label's nearest training texts",
    ("reweighting", "reweighted"): "with re-weighted attention",
}
_WORDS_SHOWN = 6  # label words of a task


def accuracies(
    tables: Mapping[str, pl.DataFrame], labels: Mapping[str, Sequence[str]]
) -> pl.DataFrame:
    """One row per model and task, one column per way to answer that the run measured."""
    chance = {task: 1 / len(words) for task, words in labels.items()}
    chance[AVERAGE] = sum(chance.values()) / len(labels)
    rows = tables["accuracy"].filter(pl.col("measure") == "accuracy").select("model", "task")
    table = rows.with_columns(
        pl.col("task").replace_strict(chance, return_dtype=pl.Float64).alias("chance")
    ).with_columns(pl.format("{}", pl.col("chance").round(2)))
    for column, (name, conditions) in _ACCURACIES.items():
        if name in tables:
            found = _selected(tables[name], conditions)
            cells = found.select(
                "model",
                "task",
                pl.struct("mean", "low", "high")
                .map_elements(lambda row: cell(*row.values()), return_dtype=pl.String)
                .alias(column),
            )
            table = table.join(cells, ["model", "task"], "left", maintain_order="left")
    if len(labels) == 1:
        table = table.filter(pl.col("task") != AVERAGE)
    return (
        table.fill_null("–") if rows["model"].n_unique() > 1 else table.drop("model").fill_null("–")
    )


def _selected(summary: pl.DataFrame, conditions: Mapping[str, str]) -> pl.DataFrame:
    found = summary.filter(**conditions)
    return found.filter(pl.col("share").is_null()) if "share" in found.columns else found


def gains(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Differences of accuracy from plain in-context learning, over tasks, if of several seeds."""
    parts = [
        _selected(
            tables[name],
            {"measure": "accuracy_gain", "task": AVERAGE, _key_of(tables[name]): value},
        )
        .filter(pl.col("seeds") > 1)  # one seed says nothing about other demonstrations
        .select("model", pl.lit(way).alias("way"), "mean", "low", "high")
        for (name, value), way in _OTHER.items()
        if name in tables
    ]
    schema = {"model": pl.String, "way": pl.String, "mean": pl.Float64}
    return pl.concat(parts) if parts else pl.DataFrame(schema={**schema, "high": pl.Float64})


def _key_of(summary: pl.DataFrame) -> str:
    return "method" if "method" in summary.columns else "choice"


def described(run: Mapping[str, Any]) -> list[str]:
    """Models, tasks, seeds, demonstrations and twins of a run, a sentence each.

    ``run`` has names of its ``models``, ``seeds``, ``twins`` and of the analyses measured in these,
    ``compared``; ``labels`` by task; and ``demonstrations`` per label.
    """
    tasks = ", ".join(f"{task} ({_listed(words)})" for task, words in run["labels"].items())
    twins = "none"
    if run["twins"]:
        twins = f"{', '.join(run['twins'])}; in {', '.join(run['compared']) or 'no analysis'}"
    said = [
        f"Models: {', '.join(run['models'])}.",
        f"Tasks: {tasks}.",
        f"Seeds: {', '.join(run['seeds'])}. Demonstrations per label: {run['demonstrations']}, "
        "unless an analysis states otherwise.",
        f"Untrained networks: {twins}.",
    ]
    return [sentence.replace("`", BACKTICK) for sentence in said]


def texts_described(
    texts: pl.DataFrame, samples: pl.DataFrame, run: Mapping[str, Any]
) -> list[str]:
    """The texts of each task, how many of them were drawn, and what could mislead about them.

    ``run`` is as in :func:`described`, with ``test_examples``.
    """
    said = []
    for task, labels in run["labels"].items():
        of_task = texts.filter(task=task)
        counts = [f"{split}, {of_labels(of_task.filter(split=split), labels)}" for split in SPLITS]
        drawn = distinct_draws(samples.filter(task=task))
        said.append(f"Texts of {task}: {'; '.join(counts)}. Drawn: {drawn}.")
        sizes = len(run["seeds"]), run["test_examples"], run["demonstrations"]
        said += [f"{task}: {remark}." for remark in remarks(of_task, labels, *sizes)]
    return [sentence.replace("`", BACKTICK) for sentence in said]


def _listed(words: Sequence[str]) -> str:
    shown = [" ".join(word.split()) for word in words[:_WORDS_SHOWN]]
    more = f", … {len(words)} labels" if len(words) > _WORDS_SHOWN else ""
    return ", ".join(shown) + more


def costs(
    tables: Mapping[str, pl.DataFrame], usage: pl.DataFrame, twins: Sequence[str]
) -> pl.DataFrame:
    """One row per analysis, the most expensive first: seeds, test texts, and seconds of its jobs.

    Columns ``analysis``, ``seeds``, ``test_texts`` and ``distinct_texts`` (null where it has none),
    ``cpu_seconds``, those of untrained networks among them in ``untrained_cpu_seconds``,
    ``seconds``, and ``jobs``.

    ``usage`` has one row per job: ``rule``, ``names`` (of its model, task, seed), ``seconds`` and
    ``cpu_seconds``.
    """
    verb, word = (
        pl.col("rule").str.extract(r"^([a-z]+)_(\w+?)(?:_index)?$", group) for group in (1, 2)
    )
    of_twin = pl.col("names").list.set_intersection(list(twins)).list.len() > 0
    counted = usage.with_columns(
        analysis=pl.when(verb == "prepare").then(pl.lit("preparation")).otherwise(word),
        untrained_cpu_seconds=pl.when(of_twin).then("cpu_seconds").otherwise(0.0),
    )
    summed = counted.group_by("analysis").agg(
        pl.col("cpu_seconds", "untrained_cpu_seconds", "seconds").sum(), pl.len().alias("jobs")
    )
    total = summed.select(pl.lit("all").alias("analysis"), pl.exclude("analysis").sum())
    rows = pl.concat([summed.sort("cpu_seconds", "analysis", descending=True), total])
    sizes = pl.DataFrame(
        [(name, *_size(tables.get(name))) for name in rows["analysis"]],
        schema={
            "analysis": pl.String,
            **dict.fromkeys(("seeds", "test_texts", "distinct_texts"), pl.Int64),
        },
        orient="row",
    )
    return sizes.join(rows, "analysis", maintain_order="left")


def _size(summary: pl.DataFrame | None) -> tuple[Any, ...]:
    """Seeds, test texts and distinct ones, as far as a summary has them."""
    known = [] if summary is None else summary.columns
    return tuple(
        summary[column].max() if summary is not None and column in known else None
        for column in ("seeds", "examples", "texts")
    )


_COST_NOTE = (
    "test texts: summed over tasks and seeds. CPU seconds, those of untrained networks among them, "
    "and seconds are those of the jobs that made what is there, for earlier settings too; they "
    "differ between runs."
)


def sections_of(
    tables: Mapping[str, pl.DataFrame],
    run: Mapping[str, Any],
    spent: pl.DataFrame,
    confidence: float,
) -> list[Section]:
    """The questions with their answers, surprises, accuracies, and what was run.

    ``tables`` are the run's summaries by the names of their analyses, and ``texts`` and
    ``samples`` of all tasks and seeds. ``run`` is as in :func:`described`, with the paths of
    ``figures`` by analysis.
    """
    counts, asked = questions(tables["claims"], run["figures"])
    return [
        Section("Questions and answers", counts, asked, LEGEND.format(confidence)),
        Section("What surprises", surprises(tables["claims"], gains(tables))),
        Section("What the model does", table=accuracies(tables, run["labels"]), note=ACCURACY_NOTE),
        Section(
            "What was run",
            [*described(run), *texts_described(tables["texts"], tables["samples"], run)],
            in_whole_seconds(spent),
            _COST_NOTE,
        ),
    ]


def in_whole_seconds(spent: pl.DataFrame) -> pl.DataFrame:
    """Costs in whole seconds, with the titles of a page."""
    titles = {
        "test_texts": "test texts",
        "distinct_texts": "distinct texts",
        "cpu_seconds": "CPU seconds",
        "untrained_cpu_seconds": "untrained",
        "seconds": "seconds of jobs",
    }
    whole = spent.with_columns(pl.col(pl.Float64).round().cast(pl.Int64)).rename(
        titles, strict=False
    )
    return whole.cast(pl.String).fill_null("–")
