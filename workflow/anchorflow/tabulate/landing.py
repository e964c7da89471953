"""Where on the demonstrations attention lands in all models, at five depths."""

import polars as pl

from anchorflow.summarize.by_task import AVERAGE
from anchorflow.tabulate.page import Page, at_depths, pivoted

_NOTE = (
    "Share of the target's attention to the demonstrations that lands on each of their segments, "
    "averaged over heads and tasks, at five depths; in the last row, the segment's share of the "
    "tokens, which attention spread evenly would have. Means over seeds with intervals "
    "over seeds and examples. Much of what text gets may go to single tokens that collect "
    "attention whatever the query: they are narrow stripes in the figure. "
    "results/tables/landing.csv has every layer, task and place."
)


def tabulate_landing(landing: pl.DataFrame) -> Page:
    """Shares of attention by segment at five depths, one row per model and layer."""
    averaged = landing.filter(pl.col("task") == AVERAGE, pl.col("segment").is_not_null())
    shares = at_depths(averaged.filter(pl.col("measure") == "share"))
    lengths = averaged.filter(pl.col("measure") == "length", pl.col("layer") == 0)
    both = pl.concat(
        [
            shares.with_columns(pl.col("layer").cast(pl.String)),
            lengths.with_columns(pl.lit("tokens").alias("layer")),
        ]
    )
    table = pivoted(both.sort("model", maintain_order=True), ("model", "layer"), "segment")
    return Page("Where on the demonstrations attention lands", _NOTE, table)
