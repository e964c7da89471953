"""Predictions with edges of attention cut, for changes worked out by hand."""

from math import log

import polars as pl

from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.knockout import KNOCKOUT
from anchorflow.schemas.prompts import PROMPTS

Change = tuple[str, bool, int]  # edges, control, draw


def knockout(
    probabilities: dict[Change, list[float]],
    plain: list[float],
    band: tuple[str, int, int] = ("last", 2, 1),
    seeds: int = 2,
    model: str = "tiny",
    task: str = "news",
) -> pl.DataFrame:
    """The table in which the true label 1 of example i has probability i of each list.

    The unmodified run has those of ``plain``.
    """
    rows = []
    runs = {("none", False, 0): plain, **probabilities}
    for (edges, control, draw), values in runs.items():
        where = ("none", -1, 0) if edges == "none" else band
        for seed in range(seeds):
            for example, value in enumerate(values):
                rows.append(
                    {
                        "model": model,
                        "task": task,
                        "seed": seed,
                        "example": example,
                        "edges": edges,
                        "control": control,
                        "draw": draw,
                        **dict(zip(("band", "layer", "layers"), where, strict=True)),
                        "cut": 3 * where[2],
                        "label": 1,
                        "prediction": int(value >= 0.5),
                        "probabilities": [1 - value, value],
                        "loss": -log(value),
                        "top_tokens": [1, 2] if value >= 0.5 else [2, 3],
                    }
                )
    return pl.DataFrame(rows, schema=frame_schema(KNOCKOUT))


def prompts(tasks: tuple[str, ...] = ("news",)) -> pl.DataFrame:
    """Prompts of these tasks, of which the summary takes the names alone."""
    rows = [{"task": task, "seed": 0, "demonstrations": "fixed"} for task in tasks]
    return pl.DataFrame(rows, schema=frame_schema(PROMPTS))
