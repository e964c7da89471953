"""What cutting edges of attention changes in all models, averaged over tasks."""

import polars as pl

from anchorflow.summarize.by_task import AVERAGE
from anchorflow.tabulate.page import Page, pivoted

_NOTE = (
    "Means over tasks and seeds with intervals over seeds, texts and draws of random edges; "
    "demonstrations fixed per seed. Attention along a class of edges, or (control) along as many "
    "random edges of the same rows, is cut in the layers that are named: the first, middle, or "
    "last third, or all. loss_change and probability_change are of the true label; loss_size is "
    "the absolute change of the loss; label_loyalty, the share of unchanged predictions; "
    "word_loyalty, the Jaccard similarity of the likeliest tokens. results/tables/knockouts.csv "
    "has every task and every single layer."
)


def tabulate_knockouts(knockouts: pl.DataFrame) -> Page:
    """One row per model, class and band, one column per measure; single layers if that is all."""
    averaged = knockouts.filter(pl.col("task") == AVERAGE)
    together = averaged.filter(pl.col("band") != "single")
    shown = averaged if together.is_empty() else together
    keys = ("model", "edges", "control", "band", "layer")
    return Page("Edges of attention cut", _NOTE, pivoted(shown, keys, "measure"))
