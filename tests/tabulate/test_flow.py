"""The table of information flows."""

import polars as pl

from anchorflow.schemas.flow import FLOW
from anchorflow.schemas.frames import frame_schema
from anchorflow.tabulate.flow import tabulate_flow


def test_flow_shows_proportions_only() -> None:
    rows = [
        ("a", "news", layer, flow, scale, value, None, None, 10, 2, 3)
        for layer in range(2)
        for flow, value in (("s_wp", 0.25), ("s_pq", 0.5))
        for scale, value in (("absolute", 9.0), ("proportion", value))
    ]
    table = tabulate_flow(pl.DataFrame(rows, schema=frame_schema(FLOW), orient="row")).table
    assert table.columns == ["model", "task", "examples", "skipped", "layer", "s_wp", "s_pq"]
    assert table.rows() == [("a", "news", 10, 3, layer, "0.25", "0.50") for layer in range(2)]
