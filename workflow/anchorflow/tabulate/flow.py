"""The flow summaries of all models, at five depths."""

import polars as pl

from anchorflow.tabulate.page import Page, at_depths, pivoted

_NOTE = (
    "Layers counted from 0, five depths per model; each cell is S / (S_wp + S_pq + "
    "S_ww) with its interval. s_wp: text to label words, s_pq: label words "
    "to target, s_ww: all other pairs. results/tables/flow.csv has every layer and "
    "the absolute values."
)


def tabulate_flow(flow: pl.DataFrame) -> Page:
    """Shares of the three flows at five depths, one row per model, task, and layer."""
    shares = flow.filter(pl.col("scale") == "proportion")
    table = pivoted(at_depths(shares), ("model", "task", "examples", "skipped", "layer"), "flow")
    return Page("Shares of the three information flows", _NOTE, table)
