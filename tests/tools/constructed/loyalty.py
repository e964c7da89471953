"""Predictions under isolation, for measures worked out by hand."""

import polars as pl

from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.isolation import ISOLATION
from anchorflow.schemas.prompts import PROMPTS

# (seed, example, positions, draw, side): true label, prediction, probabilities, likeliest tokens.
KNOWN = {
    (0, 3, "none", 0, "none"): (1, 1, [0.25, 0.75], [1, 2, 3, 4, 5]),
    (0, 3, "label", 0, "first"): (1, 0, [0.5, 0.5], [3, 4, 5, 6, 7]),
    (0, 3, "random", 0, "first"): (1, 1, [0.25, 0.75], [1, 2, 3, 4, 5]),
    (0, 3, "random", 1, "first"): (1, 0, [1.0, 0.0], [6, 7, 8, 9, 10]),
    (1, 4, "none", 0, "none"): (0, 1, [0.5, 0.5], [1, 2, 3, 4, 5]),
    (1, 4, "label", 0, "first"): (0, 1, [0.5, 0.5], [5, 4, 3, 2, 1]),
    (1, 4, "random", 0, "first"): (0, 1, [0.5, 0.5], [1, 2, 3, 4, 5]),
    (1, 4, "random", 1, "first"): (0, 0, [0.5, 0.5], [1, 2, 3, 4, 9]),
}


def isolation(task: str = "news") -> pl.DataFrame:
    """What is known, as the table ``isolation``."""
    rows = []
    for (seed, example, positions, draw, side), values in KNOWN.items():
        variant, layers = ("none", 0) if positions == "none" else ("mask", 2)
        setting = (variant, positions, draw, side, layers)
        rows.append(("tiny", task, seed, example, *setting, *values))
    return pl.DataFrame(rows[::-1], schema=frame_schema(ISOLATION), orient="row")


def prompts() -> pl.DataFrame:
    """Prompts of the examples above, and of a task whose prompts are too long."""
    run = [(task, seed, None) for task in ("news", "reviews") for seed in (0, 1)]
    rows = [
        {"task": task, "seed": seed, "demonstrations": "fixed", "skipped": reason}
        for task, seed, reason in [*run, ("poems", 0, "99 tokens exceed the context of 16")]
    ]
    return pl.DataFrame(rows, schema=frame_schema(PROMPTS))
