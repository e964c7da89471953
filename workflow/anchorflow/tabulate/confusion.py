"""How well key distances predict confusion in all models, at five depths."""

import polars as pl

from anchorflow.summarize.by_task import AVERAGE
from anchorflow.tabulate.page import Page, at_depths, pivoted

_NOTE = (
    "Spearman's rank correlation, over pairs of labels, of how well two labels' examples are told "
    "apart (AUC of the ratio of their probabilities) with the distance of their label words' keys "
    "in a layer, all heads as one vector, along the leading principal components of the targets' "
    "queries; means over seeds with "
    "intervals over seeds and texts, distances held fixed and pairs taken as given. "
    "Tasks with fewer than three labels have no correlation. In layer 0 the target's query varies "
    "with its position alone. results/tables/confusion.csv has every layer, pair and distance, and "
    "the same with distances within heads."
)


def tabulate_confusion(confusion: pl.DataFrame) -> Page:
    """The rank correlation at five depths, one row per model and layer.

    One column per task with a defined correlation in some layer, and one for the average.
    """
    correlation = confusion.filter(measure="correlation", heads="concatenated")
    defined = correlation.filter(pl.col("mean").is_not_null())["task"]
    shown = correlation.filter((pl.col("task") == AVERAGE) | pl.col("task").is_in(defined.unique()))
    table = pivoted(at_depths(shown), ("model", "layer"), "task").fill_null("–")
    return Page("Confusion of labels and distance of their keys", _NOTE, table)
