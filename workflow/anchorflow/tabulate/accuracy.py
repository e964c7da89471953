"""The accuracy summaries of all models, one row per model and task."""

import polars as pl

from anchorflow.tabulate.page import Page, pivoted

_NOTE = (
    "Means over seeds with intervals over seeds and texts; "
    "demonstrations fixed per seed. majority: what always answering the most frequent "
    "true label would score. skipped: prompts longer than the model's context, not "
    "run."
)


def tabulate_accuracy(accuracy: pl.DataFrame) -> Page:
    """One row per model and task of the table ``accuracy``."""
    index = ("model", "task", "examples", "seeds", "skipped")
    table = pivoted(accuracy, index, "measure")
    return Page("Accuracy of in-context learning", _NOTE, table)
