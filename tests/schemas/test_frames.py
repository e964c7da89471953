"""Data frames in the columns of a table."""

import polars as pl

from anchorflow.schemas.frames import frame_schema, keyed
from anchorflow.schemas.saliency import SALIENCY


def test_key_columns_are_added_with_the_table_s_types_and_order() -> None:
    measured = pl.DataFrame(
        {"s_ww": [3.0], "s_pq": [2.0], "s_wp": [1.0], "layer": [0], "example": [7]}
    )
    frame = keyed(measured, {"model": "m", "task": "t", "seed": 5}, SALIENCY)
    assert frame.schema == frame_schema(SALIENCY)
    assert frame.row(0) == ("m", "t", 5, 7, 0, 1.0, 2.0, 3.0)
