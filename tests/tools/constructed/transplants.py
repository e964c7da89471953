"""Answers after transplants, for shares of the way worked out by hand."""

import polars as pl

from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.transplant import TRANSPLANT

Taken = tuple[str, str, int]  # what, places, draw


def transplant(
    after: dict[Taken, list[float]],
    own: list[float],
    donor: list[float],
    band: tuple[str, int, int] = ("all", 0, 3),
    seeds: int = 2,
    model: str = "tiny",
    task: str = "news",
) -> pl.DataFrame:
    """The table in which label 1 of example i has probability i of each list.

    All draws have the same donor.
    """
    draws = {draw for _, _, draw in after} or {0}
    runs = {
        ("none", "none", "none", 0): own,
        **{("permuted", "prompt", "none", draw): donor for draw in draws},
        **{("permuted", *taken): values for taken, values in after.items()},
    }
    rows = []
    for (name, what, places, draw), values in runs.items():
        where = ("none", -1, 0) if places == "none" else band
        rows += [
            {
                "model": model,
                "task": task,
                "seed": seed,
                "example": example,
                "donor": name,
                "what": what,
                "places": places,
                "draw": draw,
                **dict(zip(("side", "layer", "layers"), where, strict=True)),
                "tokens": 3,
                "label": 0,
                "prediction": int(value > 0.5),
                "probabilities": [1 - value, value],
            }
            for seed in range(seeds)
            for example, value in enumerate(values)
        ]
    return pl.DataFrame(rows, schema=frame_schema(TRANSPLANT))
