"""The table of label-word attention as a predictor."""

import polars as pl

from anchorflow.analyses.attention.schema import ATTENTION_SUMMARY
from anchorflow.analyses.attention.tabulate import tabulate_attention
from anchorflow.schemas.frames import frame_schema
from constructed.rows import CELL, INTERVAL


def test_both_measures_of_a_layer_are_side_by_side() -> None:
    rows = [
        ("a", "news", layer, measure, *INTERVAL, 1)
        for measure in ("auc", "cumulative")
        for layer in range(2)
    ]
    table = tabulate_attention(
        pl.DataFrame(rows, schema=frame_schema(ATTENTION_SUMMARY), orient="row")
    ).table
    assert table.columns == ["model", "task", "layer", "unpredicted", "auc", "cumulative"]
    assert table.rows() == [("a", "news", layer, 1, CELL, CELL) for layer in range(2)]
