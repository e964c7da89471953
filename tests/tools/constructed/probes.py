"""Keys and values that name the label at one offset and nothing at another."""

import numpy as np
import polars as pl

from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.kernel import STATES


def states(seed: int = 0, task: str = "news", rounds: int = 6) -> pl.DataFrame:
    """Values that name the label at offset 0 and nothing at -1; keys that name the next token."""
    random = np.random.default_rng(seed)
    rows = []
    for demonstration in range(2 * rounds):
        label, next_token = demonstration % 2, demonstration // 2 % 3
        for offset in (-1, 0):
            told = random.normal(0, 0.1, 6)
            named = random.normal(0, 0.1, 6)
            named[next_token] += 1
            if offset == 0:
                told[label] += 1
            rows.append(
                {
                    "model": "tiny",
                    "task": task,
                    "seed": seed,
                    "layer": 0,
                    "head": 0,
                    "demonstration": demonstration,
                    "offset": offset,
                    "label": label,
                    "next_token": 100 + next_token,
                    "key": named.tolist(),
                    "value": told.tolist(),
                }
            )
    return pl.DataFrame(rows, schema=frame_schema(STATES))
