"""Which rows of the train split the demonstrations of each seed are."""

from collections.abc import Mapping, Sequence

import polars as pl

from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.samples import SAMPLES


def samples(
    shown: Mapping[int, Sequence[int]], tasks: Sequence[str] = ("news",), examples: int = 2
) -> pl.DataFrame:
    """The table ``samples`` with the same demonstrations for all examples of a seed."""
    rows = [
        {"task": task, "seed": seed, "example": example, "demonstration_rows": list(of_seed)}
        for task in tasks
        for seed, of_seed in shown.items()
        for example in range(examples)
    ]
    return pl.DataFrame(rows, schema=frame_schema(SAMPLES))
