"""Rows of the table of claims with every verdict, for the figure and the page that show them."""

from typing import Any

import polars as pl

from anchorflow.claims.schema import CLAIMS
from anchorflow.claims.summarize import load_claims
from constructed.rows import frame

SUPPORTED = {
    "effect": 0.5,
    "low": 0.25,
    "high": 0.75,
    "control_effect": 0.125,
    "over_control": 0.375,
    "over_control_low": 0.25,
    "over_control_high": 0.5,
    "null_effect": 0.0,
    "over_null": 0.5,
    "over_null_low": 0.375,
    "over_null_high": 0.625,
    "p_value": 0.001,
    "p_corrected": 0.008,
    "interval": "seeds and test texts",
    "effect_mark": "holds",
    "control_mark": "holds",
    "null_mark": "holds",
    "verdict": "supported",
}
ALSO_UNTRAINED = {
    **SUPPORTED,
    "null_effect": 0.75,
    "over_null": -0.25,
    "over_null_low": -0.5,
    "over_null_high": 0.0,
    "p_value": 1.0,
    "p_corrected": 1.0,
    "null_mark": "fails",
    "verdict": "untrained too",
    "fails": "null",
    "reason": "also true of an untrained network",
}
UNCLEAR = {
    "effect": 0.25,
    "low": -0.125,
    "high": 0.625,
    "effect_mark": "unclear",
    "control_mark": "missing",
    "null_mark": "missing",
    "interval": "seeds and test texts",
    "verdict": "undecided",
    "reason": "the effect is not clearly above 0",
}
ONE_SEED = {
    "effect": 0.25,
    "low": 0.125,
    "high": 0.375,
    "interval": "test texts",
    "effect_mark": "unclear",
    "verdict": "not measured",
    "reason": "one seed says nothing about other demonstrations",
}
UNDEFINED = {
    "control_effect": 0.25,
    "null_effect": -2.0,
    "effect_mark": "unclear",
    "control_mark": "missing",
    "null_mark": "missing",
    "interval": "seeds and test texts",
    "verdict": "undecided",
    "reason": "undefined: no two labels are predicted",
}
MISSING = {
    "effect_mark": "missing",
    "verdict": "not measured",
    "reason": "the run has no table retrieval",
    "remedy": "retrieval: {choices: [nearest]}",
}
TIMED = {
    "effect": 4.0,
    "low": 3.5,
    "high": 4.5,
    "interval": "quartiles of timings",
    "effect_mark": "holds",
    "verdict": "supported",
}
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
        {"task": task, "claim": claim.name, "statement": claim.statement}
        | {"source": claim.source, "family": claim.source.partition(",")[0], "form": claim.form}
        | {"compared": claim.compared, "unit": claim.unit, "question": claim.question or None}
        | {"figure": claim.figure, "effect_mark": "missing", "control_mark": "none"}
        | {"null_mark": "none", "control": claim.control.description, "null": claim.null}
        | {"examples": 28, "texts": 14, "seeds": 4, **decided[claim.name]}
        for claim in load_claims()
        for task in ("news", "average")
        if claim.name in decided
    ]
    return frame(rows, CLAIMS, model=model)
