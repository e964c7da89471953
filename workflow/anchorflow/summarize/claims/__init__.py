"""The papers' claims as differences, and which of them hold for a model.

Each file of this package is one claim, or a family of claims that differ only in names. It declares

- ``READS``, the names of the tables that its claims read, as a literal, and
- ``CLAIMS``, the claims, each with an effect, which is above 0 if the claim holds, and a decision
  rule.

Files whose names begin with an underscore contain what claims share.
"""

import re
from collections.abc import Mapping, Sequence
from math import inf
from typing import NamedTuple

import numpy as np
import polars as pl

from anchorflow.config import registry
from anchorflow.schemas.claims import CLAIMS
from anchorflow.schemas.frames import frame_schema
from anchorflow.summarize.by_task import AVERAGE, require_examples, summary_table
from anchorflow.summarize.claims._claim import (
    ALL_TASKS,
    INTERVAL,
    QUARTILES,
    Claim,
    Curve,
    Depth,
    Isolated,
    NotTested,
    Run,
    Sampled,
    Timed,
)
from anchorflow.summarize.statistics import average
from anchorflow.summarize.verdicts import INCONCLUSIVE, NOT_TESTED, verdict

__all__ = [
    "ALL_TASKS",
    "INTERVAL",
    "QUARTILES",
    "Claim",
    "Curve",
    "Depth",
    "Isolated",
    "load_claims",
    "summarize_claims",
]

_FOLDER = "summarize/claims"
_SOURCE = re.compile(
    r"\[(?P<paper>\w+)\] §(?P<section>\d+(\.\d+)*)(, (Table|Fig\.) (?P<number>\d+))?"
)


def load_claims() -> list[Claim]:
    """The claims of all files, ordered by source.

    Raises
    ------
    ValueError
        If the source of a claim does not have the expected format.
    """
    files = registry.entries(_FOLDER)  # in order, which the stable sort keeps for equal places
    claims = [claim for file in files for claim in registry.load(_FOLDER, file).CLAIMS]
    return sorted(claims, key=_place)


def _place(claim: Claim) -> tuple[str, tuple[float, ...], int, int]:
    """Paper, section, number of the table or figure, place; §5.1 precedes §5 as a whole."""
    source = _SOURCE.fullmatch(claim.source)
    if source is None:
        raise ValueError(f"{claim.name}: a source is written as [A] §3.2, Table 2: {claim.source}")
    section = [int(number) for number in source["section"].split(".")]
    return source["paper"], (*section, inf), int(source["number"] or 0), claim.place


def summarize_claims(
    tasks: Sequence[str],
    variant: str,
    replicates: int,
    confidence: float,
    **tables: pl.DataFrame,
) -> pl.DataFrame:
    """Effect, interval and verdict of every claim, per task and averaged over tasks.

    Parameters
    ----------
    tasks : sequence of str
        All tasks of the run, in order.
    variant : str
        The variant of isolation to use.
    tables
        Tables of one model, all tasks and seeds: ``predictions`` and those that claims list in
        ``READS``; ``kernel_predictions`` are those with the demonstrations of ``kernel``. Claims
        whose tables are missing are not tested.

    Returns
    -------
    DataFrame
        Columns of the table ``claims``: one row per claim and task, and one per claim for the
        average.

    Raises
    ------
    InputError
        If there are no predictions.
    """
    require_examples(tables["predictions"])
    runs = [
        Run(
            task,
            {name: rows.filter(pl.col("task") == task) for name, rows in tables.items()},
            variant,
            replicates,
        )
        for task in tasks
    ]
    rows = [row for claim in load_claims() for row in _rows(claim, runs, confidence)]
    schema = frame_schema(CLAIMS)
    frame = pl.DataFrame(rows, schema={name: schema[name] for name in rows[0]})
    return summary_table(frame, tables["predictions"], CLAIMS)


class _Decision(NamedTuple):
    """The columns of a row that differ from task to task."""

    effect: float | None
    low: float | None
    high: float | None
    examples: int
    seeds: int
    rule: str
    verdict: str
    reason: str | None = None


def _rows(claim: Claim, runs: Sequence[Run], confidence: float) -> list[dict[str, object]]:
    """The rows of one claim: one per task, then the average."""
    effects: dict[str, Sampled | Timed] = {}
    decisions: dict[str, _Decision] = {}
    for run in runs:
        try:
            effects[run.task] = claim.measure(run)
            decisions[run.task] = _decide(effects[run.task], claim, confidence)
        except NotTested as why:
            decisions[run.task] = _not_tested(claim, str(why))
    decisions[AVERAGE] = _over_tasks(effects, decisions, claim, confidence)
    told = {
        "claim": claim.name,
        "statement": claim.statement,
        "source": claim.source,
        "compared": claim.compared,
        "unit": claim.unit,
    }
    return [{"task": task, **told, **each._asdict()} for task, each in decisions.items()]


def _not_tested(claim: Claim, reason: str) -> _Decision:
    return _Decision(None, None, None, 0, 0, claim.rule, NOT_TESTED, reason)


def _decide(effect: Sampled | Timed, claim: Claim, confidence: float) -> _Decision:
    if isinstance(effect, Timed):
        said = verdict(effect.low, effect.high)
        return _Decision(effect.value, effect.low, effect.high, effect.runs, 1, claim.rule, said)
    # Sums in different order leave rounding errors where there is no difference.
    rounded = effect.effect.map(lambda values: np.round(values, 12) + 0.0)
    counts = (effect.examples, effect.seeds, claim.rule)
    value = float(rounded.values[0])
    if np.isnan(value):
        reason = f"undefined: {claim.undefined}"
        return _Decision(None, None, None, *counts, INCONCLUSIVE, reason)
    low, high = (float(ends[0]) for ends in rounded.interval(confidence))
    unknown = float(np.isnan(rounded.replicates).mean())
    if unknown > 1 - confidence:
        reason = f"undefined in {unknown:.0%} of the replicates"
        if np.isnan(low):
            return _Decision(value, None, None, *counts, INCONCLUSIVE, reason)
        return _Decision(value, low, high, *counts, INCONCLUSIVE, reason)
    return _Decision(value, low, high, *counts, verdict(low, high))


def _over_tasks(
    effects: Mapping[str, Sampled | Timed],
    decisions: Mapping[str, _Decision],
    claim: Claim,
    confidence: float,
) -> _Decision:
    """The decision over tasks with a value; its reason names the tasks without one."""
    if not effects:
        reasons = dict.fromkeys(str(each.reason) for each in decisions.values())
        return _not_tested(claim, "; ".join(reasons))
    defined = {task: each for task, each in effects.items() if _has_value(each)}
    averaged = list((defined or effects).values())
    timed = [each for each in averaged if isinstance(each, Timed)]
    sampled = [each for each in averaged if isinstance(each, Sampled)]
    if timed:
        said = {decisions[task].verdict for task in effects}
        value = float(np.mean([each.value for each in timed]))
        runs = sum(each.runs for each in timed)
        agreed = said.pop() if len(said) == 1 else INCONCLUSIVE
        overall = _Decision(value, None, None, runs, 1, ALL_TASKS, agreed)
    else:
        effect = Sampled(
            average([each.estimate for each in sampled]),
            sum(each.examples for each in sampled),
            max(each.seeds for each in sampled),
            sampled[0].made,
        )
        overall = _decide(effect, claim, confidence)
    lacks = [task for task in decisions if task not in defined] if defined else []
    limits = [
        overall.reason,
        f"without {', '.join(lacks)}" if lacks else None,
        "the run has one task" if len(decisions) == 1 else None,
    ]
    return overall._replace(reason="; ".join(filter(None, limits)) or None)


def _has_value(effect: Sampled | Timed) -> bool:
    return isinstance(effect, Timed) or not np.isnan(effect.estimate.values).all()
