"""Rows as tables; what a test does not care about is filled in by the table's schema."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from anchorflow.config.table import Table
from anchorflow.schemas.frames import frame_schema

KEYS = {"model": "tiny", "task": "news", "seed": 0, "example": 0, "draw": 0}

INTERVAL = (0.25, 0.125, 0.5, 10, 5, 2)  # mean, low, high, examples, texts, seeds
CELL = "0.25 [0.12, 0.50]"  # which shows it


def frame(rows: Sequence[Mapping[str, Any]], table: Table, **same: Any) -> pl.DataFrame:
    """Rows as a table, in which some columns are the ``same`` in all rows that lack them.

    Other keys that rows lack are those of ``KEYS``; all else is null, and labels are apart.
    """
    filled = {name: value for name, value in {**KEYS, **same}.items() if name in table.names}
    made = pl.DataFrame([{**filled, **row} for row in rows], schema=frame_schema(table))
    if "token_groups" not in made.columns:
        return made
    apart = pl.int_ranges(pl.col("probabilities").list.len(), dtype=pl.Int32)
    return made.with_columns(token_groups=apart)
