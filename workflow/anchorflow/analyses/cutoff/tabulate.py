"""Layers that need the demonstrations, for all models, as a table."""

import polars as pl

from anchorflow.present.page import Page, pivoted

_NOTE = (
    "The smallest number of first layers in which queries see the demonstrations such that 95 % of "
    "accuracy and of label loyalty is retained with this number and with every larger one. Means "
    "over seeds with intervals over seeds and test texts; demonstrations fixed per seed. In later "
    "layers, queries see, first: only the prompt's first token and the instruction; label: these "
    "and the label words; random: these and the same number of random tokens. "
    "results/tables/cutoff.csv has accuracy and loyalty by layer."
)


def tabulate_cutoff(summary: pl.DataFrame) -> Page:
    """Layers needed by what stays visible, one row per model and task."""
    table = pivoted(summary.filter(pl.col("measure") == "needed"), ("model", "task"), "sees")
    return Page("Layers that need the demonstrations", _NOTE, table.fill_null("–"))
