"""Data frames in the columns of a table."""

import polars as pl

from anchorflow.analyses.flow import FLOW
from anchorflow.schemas.frames import frame_schema, keyed


def test_key_columns_are_added_with_the_table_s_types_and_order() -> None:
    names = FLOW.names[5:]
    values = {name: [float(order)] for order, name in enumerate(names)}
    measured = pl.DataFrame({**dict(reversed(values.items())), "layer": [0], "example": [7]})
    frame = keyed(measured, {"model": "m", "task": "t", "seed": 5}, FLOW)
    assert frame.schema == frame_schema(FLOW)
    assert frame.row(0) == ("m", "t", 5, 7, 0, *map(float, range(len(names))))
