"""Predictions for untouched and perturbed texts, for differences worked out by hand."""

import polars as pl

from anchorflow.analyses.perturbations import PERTURBATIONS, PERTURBED_TEXTS
from anchorflow.analyses.perturbations.summarize import summarize_perturbations
from anchorflow.schemas.prompts import PROMPTS
from constructed.rows import frame

ANSWERS = {"untouched": [0, 0, 1, 0], "typos": [0, 1, 0, 1]}
TRUTH = [0, 0, 1, 1]  # three right untouched, two with typos
CHANGED = [0, 1, 2, 3]  # words of four, with typos

Frames = dict[str, pl.DataFrame]


def tables_of(task: str, seeds: int, left_out: tuple[str, int] | None = None) -> Frames:
    """What the summary reads, without the prediction for one text; -1 stands for all texts."""
    cells = [
        {"task": task, "seed": seed, "perturbation": name, "example": example}
        for seed in range(seeds)
        for name in ANSWERS
        for example in range(4)
    ]
    skipped = [
        left_out in [(cell["perturbation"], cell["example"]), (cell["perturbation"], -1)]
        for cell in cells
    ]
    predictions = [
        {**cell, "label": TRUTH[cell["example"]]}
        | {"prediction": ANSWERS[cell["perturbation"]][cell["example"]]}
        | {"probabilities": [0.5, 0.5]}
        | {"label_mass": 0.5 if cell["perturbation"] == "untouched" else 0.25}
        | {"in_labels": cell["perturbation"] == "untouched" or cell["example"] == 3}
        for cell, out in zip(cells, skipped, strict=True)
        if not out
    ]
    prompted = [
        {**cell, "demonstrations": cell["perturbation"], "skipped": "too long" if out else None}
        for cell, out in zip(cells, skipped, strict=True)
    ]
    prompts = frame(prompted, PROMPTS, model="m")
    fixed = prompts.filter(demonstrations="untouched").with_columns(demonstrations=pl.lit("fixed"))
    other = fixed.with_columns(demonstrations=pl.lit("per_example"), skipped=pl.lit("too long"))
    texts = [
        {**cell, "text": "a b c d", "words": 4, "changed": CHANGED[cell["example"]]}
        for cell in cells
        if cell["perturbation"] == "typos"
    ]
    return {
        "predictions": frame(predictions, PERTURBATIONS, model="m"),
        "perturbed": prompts.filter(demonstrations="typos"),
        "prompts": pl.concat([fixed, other]),
        "texts": frame(texts, PERTURBED_TEXTS),
    }


def with_a_task_skipped_whole() -> pl.DataFrame:
    """A summary of two tasks; all prompts of one are too long with typos."""
    both = tables_of("news", 1), tables_of("long", 1, ("typos", -1))
    joined = {name: pl.concat([tables[name] for tables in both]) for name in both[0]}
    return summarize_perturbations(**joined, confidence=0.9)
