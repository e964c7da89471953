"""The retention summaries of all models, averaged over tasks, as [A] Table 2."""

import polars as pl

from anchorflow.summarize.by_task import AVERAGE
from anchorflow.tabulate.page import Page, pivoted

_NOTE = (
    "Means over tasks and seeds with intervals over seeds, texts and draws; "
    "demonstrations fixed per seed. label_loyalty: share of predictions as with everything kept; "
    "word_loyalty: Jaccard similarity of the five likeliest tokens with those. Without a share, a "
    "method keeps as many tokens as there are anchors (formatting and label words), or what its "
    "name says. hidden_random_oracle: the most loyal of the random draws, chosen on these very "
    "examples as Hidden_random-top in [A]; hidden_random_top: chosen on the other half of them. "
    "reweighted, reweighted_anchor: attention to the label words multiplied by fitted exp(β). "
    "published: Table 2 of Wang et al. 2023. results/tables/retention.csv has every task."
)


def tabulate_retention(retention: pl.DataFrame) -> Page:
    """The measures averaged over tasks, one row per model, method, and share, as [A] Table 2."""
    averaged = retention.filter(pl.col("task") == AVERAGE)
    named = averaged.with_columns(
        pl.col("share").cast(pl.String).fill_null("–"),
    )
    index = ("model", "method", "share")
    ours = pivoted(named, index, "measure")
    published = averaged.filter(pl.col("published").is_not_null()).with_columns(
        pl.col("method") + " (published)",
        share=pl.lit("–"),
        mean="published",
        low=pl.lit(None),
        high=pl.lit(None),
    )
    table = pl.concat([ours, pivoted(published, index, "measure")], how="diagonal").fill_null("–")
    return Page("Compressed demonstrations", _NOTE, table)
