"""Effects and verdicts of the papers' claims, of analyses and of ``sections``."""

import importlib
import re
from collections.abc import Mapping, Sequence
from math import inf

import polars as pl

from anchorflow.claims.claim import ALL_TASKS, QUARTILES, Claim, Run
from anchorflow.claims.decision import Decision, corrected, decide, with_disagreement
from anchorflow.claims.measured import measure_claim, over_tasks
from anchorflow.claims.schema import CLAIMS
from anchorflow.config.cell_names import OWN, SHUFFLED, Words, cell_name
from anchorflow.config.registry import claim_places, module_at
from anchorflow.schemas.frames import frame_schema
from anchorflow.statistics.by_task import AVERAGE, require_examples, summary_table

_PAPERS = "AKH"  # in the order of claims; [H] are works on attention heads
_SOURCE = re.compile(
    r"\[(?P<paper>[AKH])\] §(?P<section>\d+(\.\d+)*)(, (Table|Fig\.) (?P<number>\d+))?"
)


def load_claims() -> list[Claim]:
    """The claims of all files, ordered by source; those of one source as in their file."""
    modules = (importlib.import_module(module_at(place)) for place in claim_places())
    claims = [claim for module in modules for claim in module.CLAIMS]
    return sorted(claims, key=_place)


def _place(claim: Claim) -> tuple[int, tuple[float, ...], int]:
    """Paper, section, number of the table or figure; §5.1 precedes §5 as a whole."""
    source = _SOURCE.fullmatch(claim.source)
    if source is None:
        raise ValueError(f"{claim.name}: a source is written as [A] §3.2, Table 2: {claim.source}")
    section = [int(number) for number in source["section"].split(".")]
    return _PAPERS.index(source["paper"]), (*section, inf), int(source["number"] or 0)


def summarize_claims(
    tasks: Sequence[str],
    variant: str,
    temperature: float,
    confidence: float,
    words: Words,
    **tables: pl.DataFrame,
) -> pl.DataFrame:
    """Effect, interval, control, null, and verdict of every claim, per task and over tasks.

    ``tables`` are those of one model, all tasks and seeds, by the names in ``READS``, and
    ``predictions``; ``kernel_predictions`` have the demonstrations of ``kernel``. Names that begin
    with ``untrained_`` are tables of the model's untrained twins, and with ``shuffled_``, tables
    with shuffled demonstration labels; ``worded_predictions`` also have other label words. Claims
    whose tables are missing are not measured.
    """
    require_examples(tables["predictions"])
    runs = runs_of(tasks, variant, temperature, words, tables)
    claims = load_claims()
    measured = []
    for claim in claims:
        of_tasks = {task: measure_claim(claim, run) for task, run in runs.items()}
        measured.append({**of_tasks, AVERAGE: over_tasks(of_tasks)})
    by_task: dict[str, list[Decision]] = {}
    for task in (*runs, AVERAGE):
        pairs = zip(claims, measured, strict=True)
        decisions = [decide(claim, known[task], confidence) for claim, known in pairs]
        by_task[task] = corrected(decisions, confidence)
    by_task[AVERAGE] = [
        with_disagreement(overall, {task: by_task[task][place] for task in runs})
        for place, overall in enumerate(by_task[AVERAGE])
    ]
    rows = [
        {"task": task, **declared(claim, task), **decisions[place].columns()}
        for place, claim in enumerate(claims)
        for task, decisions in by_task.items()
    ]
    schema = frame_schema(CLAIMS)
    frame = pl.DataFrame(rows, schema={name: schema[name] for name in rows[0]})
    return summary_table(frame, tables["predictions"], CLAIMS)


def runs_of(
    tasks: Sequence[str],
    variant: str,
    temperature: float,
    words: Words,
    tables: Mapping[str, pl.DataFrame],
) -> dict[str, Run]:
    """What claims measure of each task; for parameters see :func:`summarize_claims`."""
    others = (_TWINS, _SHUFFLED, _WORDED)
    of_original = {name: rows for name, rows in tables.items() if not name.startswith(others)}
    # Prompts, samples and embeddings are those of the model, which twins share.
    shared = {
        name: rows
        for name, rows in of_original.items()
        if name == "prompts" or "model" not in rows.columns
    }
    of_twins = _without(_TWINS, tables)
    twins = _by_model({name: of_twins[name] for name in of_twins if name not in shared})
    shuffled, worded = _without(_SHUFFLED, tables), _without(_WORDED, tables)
    return {
        task: Run(
            task,
            _of_task(of_original, task),
            variant,
            temperature,
            {
                name: Run(task, _of_task({**shared, **of_twin}, task), variant, temperature)
                for name, of_twin in twins.items()
            },
            _of_task(shuffled, cell_name(task, SHUFFLED)),
            {
                name: _of_task(worded, cell_name(task, name))["predictions"]
                for name in words.get(task, {})
                if name != OWN and worded
            },
            words.get(task, {}),
        )
        for task in tasks
    }


_TWINS, _SHUFFLED, _WORDED = "untrained_", "shuffled_", "worded_"


def _without(beginning: str, tables: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The tables whose names begin so, by the rest of their names."""
    return {
        name.removeprefix(beginning): rows
        for name, rows in tables.items()
        if name.startswith(beginning)
    }


def _by_model(tables: Mapping[str, pl.DataFrame]) -> dict[str, dict[str, pl.DataFrame]]:
    """The tables of each twin, by its name."""
    names = sorted({str(name) for rows in tables.values() for name in rows["model"].unique()})
    return {
        twin: {name: rows.filter(pl.col("model") == twin) for name, rows in tables.items()}
        for twin in names
    }


def _of_task(tables: Mapping[str, pl.DataFrame], task: str) -> dict[str, pl.DataFrame]:
    return {name: rows.filter(pl.col("task") == task) for name, rows in tables.items()}


def declared(claim: Claim, task: str) -> dict[str, str | None]:
    """The columns of a row that do not depend on measurements."""
    timed = claim.rule == QUARTILES
    return {
        "claim": claim.name,
        "statement": claim.statement,
        "source": claim.source,
        "family": claim.family,
        "form": claim.form,
        "compared": claim.compared,
        "unit": claim.unit,
        "question": claim.question or None,
        "figure": claim.figure,
        "control": claim.control.description,
        "null": claim.null or "none",
        "rule": ALL_TASKS if timed and task == AVERAGE else claim.rule,
    }
