"""Predictions of every method of Table 1, for gains worked out by hand."""

import polars as pl

from anchorflow.analyses.reweighting import REWEIGHTING
from anchorflow.schemas.prompts import PROMPTS
from constructed.rows import frame

TRUTH = [0, 0, 1, 1]
BASELINES = ("bias_removed", "calibrated", "attention_regression")
ANSWERS = {
    "vanilla": [0, 1, 0, 1],
    "many": [0, 0, 0, 1],
    "bias_removed": [0, 1, 0, 1],
    "calibrated": [1, 1, 0, 0],
    "attention_regression": [0, 1, 0, 1],
    "reweighted": [0, 0, 1, 1],
}


def in_vocabulary(method: str, example: int) -> dict[str, float | bool | None]:
    """What the model says of label words; only with β, an example's likeliest is none."""
    if method in BASELINES:
        return {"label_mass": None, "in_labels": None}
    return {"label_mass": (example + 1) / 4, "in_labels": method != "reweighted" or example != 1}


def predictions_of(model: str, task: str, seeds: int, left_out: int | None = None) -> pl.DataFrame:
    """The answers above for every seed, without the ``left_out`` example of ``many``."""
    rows = [
        {"seed": seed, "example": example, "method": method, "label": TRUTH[example]}
        | {"prediction": prediction, "probabilities": [1.0 - prediction, float(prediction)]}
        | {**in_vocabulary(method, example)}
        for seed in range(seeds)
        for method, answers in ANSWERS.items()
        for example, prediction in enumerate(answers)
        if not (method == "many" and example == left_out)
    ]
    return frame(rows, REWEIGHTING, model=model, task=task)


def prompts_of(
    model: str, task: str, seeds: int, left_out: int | None = None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The run's prompts, and those that re-weighting adds; one with many may be too long."""
    rows = [
        {
            "seed": seed,
            "demonstrations": protocol,
            "example": example,
            "skipped": "too long" if protocol == "many" and example == left_out else None,
        }
        for seed in range(seeds)
        for protocol in ("fixed", "many", "training")
        for example in range(4)
    ]
    whole = frame(rows, PROMPTS, model=model, task=task)
    fixed = pl.col("demonstrations") == "fixed"
    return whole.filter(fixed), whole.filter(~fixed)
