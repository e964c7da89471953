"""The table of information flows."""

import polars as pl

from anchorflow.analyses.flow import FLOW_SUMMARY
from anchorflow.analyses.flow.tabulate import tabulate_flow
from anchorflow.schemas.frames import frame_schema

PAPER = (("s_wp", 0.25), ("s_pq", 0.5))
CONTROLS = (("into_share", 0.75), ("s_wp_before", 0.2), ("wp_text", 1.0))


def test_flow_shows_proportions_only_and_controls_in_tables_of_their_own() -> None:
    rows = [
        ("a", "news", layer, flow, scale, value, None, None, 10, 5, 2, 3)
        for layer in range(2)
        for flow, value in PAPER + CONTROLS
        for scale, value in (("absolute", 9.0), ("proportion", value))
    ]
    page = tabulate_flow(pl.DataFrame(rows, schema=frame_schema(FLOW_SUMMARY), orient="row"))
    table = page.table
    assert table.columns == [
        "model",
        "task",
        "examples",
        "texts",
        "skipped",
        "layer",
        "s_wp",
        "s_pq",
    ]
    assert table.rows() == [("a", "news", 10, 5, 3, layer, "0.25", "0.50") for layer in range(2)]
    for (name, value), further in zip(CONTROLS, page.further.values(), strict=True):
        assert further.columns == [*table.columns[:6], name]
        assert further[name].to_list() == [f"{value:.2f}"] * 2
