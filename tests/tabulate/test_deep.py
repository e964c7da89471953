"""The table of AUCs and R."""

import polars as pl

from anchorflow.schemas.deep import DEEP
from anchorflow.schemas.frames import frame_schema
from anchorflow.tabulate.deep import tabulate_deep
from constructed.intervals import CELL, INTERVAL


def test_deep_shows_both_measures_of_a_layer_side_by_side() -> None:
    rows = [
        ("a", "news", layer, measure, *INTERVAL, 1)
        for measure in ("auc", "cumulative")
        for layer in range(2)
    ]
    table = tabulate_deep(pl.DataFrame(rows, schema=frame_schema(DEEP), orient="row")).table
    assert table.columns == ["model", "task", "layer", "unpredicted", "auc", "cumulative"]
    assert table.rows() == [("a", "news", layer, 1, CELL, CELL) for layer in range(2)]
