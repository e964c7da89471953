"""The loyalty summaries of all models, averaged over tasks."""

import polars as pl

from anchorflow.summarize.by_task import AVERAGE
from anchorflow.tabulate.page import Page, pivoted

_NOTE = (
    "Means over tasks and seeds with intervals over seeds, texts and draws of random "
    "positions; demonstrations fixed per seed. The isolated positions may not attend to earlier "
    "tokens in the first or last layers, as many as said: label, the label words; random, other "
    "tokens of the demonstrations; before and after, the tokens next to each label word; text, "
    "tokens of each text. label_loyalty: share of predictions as "
    "in the untouched run; word_loyalty: Jaccard similarity of the likeliest tokens with those of "
    "the untouched run; divergence: of the label distribution from the untouched one, in nats. "
    "results/tables/loyalty.csv has every task."
)


def tabulate_loyalty(loyalty: pl.DataFrame) -> Page:
    """The four measures averaged over tasks, one row per model and setting of isolation."""
    averaged = loyalty.filter(pl.col("task") == AVERAGE)
    table = pivoted(averaged, ("model", "variant", "layers", "side", "positions"), "measure")
    return Page("Loyalty under isolation", _NOTE, table)
