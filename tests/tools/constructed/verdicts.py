"""Rows of the table of claims with every verdict, for the figure and the page that show them."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from anchorflow.claims.schema import CLAIMS
from anchorflow.claims.summarize import declared, load_claims
from constructed.rows import frame

_NUMBERS = ("effect", "low", "high", "control_effect", "over_control", "over_control_low")
_NUMBERS += ("over_control_high", "null_effect", "over_null", "over_null_low", "over_null_high")
_NUMBERS += ("p_value", "p_corrected")


def row(numbers: Sequence[float | None], marks: str, verdict: str, **more: Any) -> dict[str, Any]:
    """Numbers, as far as there are any, marks of effect, control and null, and a verdict."""
    parts = zip(("effect", "control", "null"), marks.split(), strict=False)
    marked = {f"{part}_mark": mark for part, mark in parts}
    return {**dict(zip(_NUMBERS, numbers, strict=False)), **marked, "verdict": verdict, **more}


BOTH = "seeds and test texts"  # what an interval covers
OVER_CONTROL = (0.125, 0.375, 0.25, 0.5)
SUPPORTED = row(
    (0.5, 0.25, 0.75, *OVER_CONTROL, 0.0, 0.5, 0.375, 0.625, 0.001, 0.008),
    "holds holds holds",
    "supported",
    interval=BOTH,
)
ALSO_UNTRAINED = row(
    (0.5, 0.25, 0.75, *OVER_CONTROL, 0.75, -0.25, -0.5, 0.0, 1.0, 1.0),
    "holds holds fails",
    "untrained too",
    interval=BOTH,
    fails="null",
    reason="also true of an untrained network",
)
UNCLEAR = row(
    (0.25, -0.125, 0.625),
    "unclear missing missing",
    "undecided",
    interval=BOTH,
    reason="the effect is not clearly above 0",
)
ONE_SEED = row(
    (0.25, 0.125, 0.375),
    "unclear",
    "not measured",
    interval="test texts",
    reason="one seed says nothing about other demonstrations",
)
UNDEFINED = row(
    (None, None, None, 0.25, None, None, None, -2.0),
    "unclear missing missing",
    "undecided",
    interval=BOTH,
    reason="undefined: no two labels are predicted",
)
MISSING = row(
    (),
    "missing",
    "not measured",
    reason="the run has no table retrieval",
    remedy="retrieval: {choices: [nearest]}",
)
TIMED = row((4.0, 3.5, 4.5), "holds", "supported", interval="quartiles of timings")
DECIDED = {
    "flow_early": SUPPORTED,
    "flow_late": ALSO_UNTRAINED,
    "flow_into_label_words": UNCLEAR,
    "isolation_label_over_random": ONE_SEED,
    "deep_auc_rises": UNDEFINED,
    "anchors_faster_than_full_cache": TIMED,
    "retrieval_helps": MISSING,
}


def claims_table(model: str = "tiny", decided: dict[str, dict[str, Any]] = DECIDED) -> pl.DataFrame:
    """The claims named, for a task and over tasks alike."""
    rows = [
        {"task": task, **declared(claim, task), "examples": 28, "texts": 14, "seeds": 4}
        | {"effect_mark": "missing", "control_mark": "none", "null_mark": "none"}
        | decided[claim.name]
        for claim in load_claims()
        for task in ("news", "average")
        if claim.name in decided
    ]
    return frame(rows, CLAIMS, model=model)
