"""Attention to the segments of demonstrations, for all models."""

import polars as pl

from anchorflow.present.page import Page, at_depths, averaged_rows, pivoted

_NOTE = (
    "Share of the target's attention to the demonstrations that lands on each of their "
    "segments, averaged over heads and tasks, at five depths. The last row is the segment's share "
    "of the tokens, the value of uniform attention. Means over seeds with intervals over seeds "
    "and test texts. Much of the attention to text may go to single tokens that attract attention "
    "whatever the query; they are narrow stripes in the figure. results/tables/landing.csv has "
    "every layer, task, and place."
)


def tabulate_landing(summary: pl.DataFrame) -> Page:
    """One row per model and layer, one column per segment."""
    table = pivoted(_shares(summary), ("model", "layer"), "segment")
    return Page("Where on the demonstrations attention lands", _NOTE, table.fill_null("–"))


def _shares(landing: pl.DataFrame) -> pl.DataFrame:
    """Shares of attention at five depths, and of tokens."""
    averaged = averaged_rows(landing).filter(pl.col("segment").is_not_null())
    shares = at_depths(averaged.filter(measure="share"))
    first = pl.col("layer") == pl.col("layer").min().over("model")  # lengths are those of any layer
    lengths = averaged.filter(first, measure="length")
    both = pl.concat(
        [
            shares.with_columns(pl.col("layer").cast(pl.String)),
            lengths.with_columns(pl.lit("tokens").alias("layer")),
        ]
    )
    return both.sort("model", maintain_order=True)
