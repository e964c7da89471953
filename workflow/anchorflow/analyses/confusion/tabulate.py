"""Correlation of confusion with key distance, for all models, as a table at five depths."""

import polars as pl

from anchorflow.present.page import Page, at_depths, pivoted
from anchorflow.statistics.by_task import AVERAGE

_NOTE = (
    "Spearman's rank correlation, over pairs of labels, of two quantities: how well the ratio of "
    "the two labels' probabilities separates their texts (AUC), and the distance between the "
    "keys of their label words in a layer, all heads as one vector, along the leading principal "
    "components of the target's queries. Means over seeds with intervals over seeds and test "
    "texts; distances are held fixed and pairs taken as given. Tasks with fewer than three labels "
    "have no correlation. In layer 0, the target's query varies only with its position. "
    "results/tables/confusion.csv has every layer, pair and distance, also for distances within "
    "heads."
)


def tabulate_confusion(summary: pl.DataFrame) -> Page:
    """The rank correlation of every task, one row per model and layer."""
    table = pivoted(_correlations(summary), ("model", "layer"), "task")
    return Page("Confusion of labels and distance between their keys", _NOTE, table.fill_null("–"))


def _correlations(confusion: pl.DataFrame) -> pl.DataFrame:
    """The rank correlation at five depths: the average, and tasks that have one in some layer."""
    correlation = confusion.filter(measure="correlation", heads="concatenated")
    defined = correlation.filter(pl.col("mean").is_not_null())["task"]
    kept = (pl.col("task") == AVERAGE) | pl.col("task").is_in(defined.unique())
    return at_depths(correlation.filter(kept))
