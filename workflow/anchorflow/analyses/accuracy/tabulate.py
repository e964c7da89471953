"""Accuracy of all models as a table."""

import polars as pl

from anchorflow.present.page import Page, pivoted

_NOTE = (
    "Means over seeds with intervals over seeds and test texts; demonstrations fixed per seed. "
    "majority: accuracy of always predicting the most frequent true label. label_mass: "
    "probability, over the whole vocabulary, that the next token is the first of a label word; "
    "in_labels: share of texts whose likeliest next token is the first of a label word. skipped: "
    "prompts that are not run, mostly since they exceed the model's context."
)


def tabulate_accuracy(summary: pl.DataFrame) -> Page:
    """The measures side by side, one row per model and task."""
    table = pivoted(summary, ("model", "task", "examples", "texts", "seeds", "skipped"), "measure")
    return Page("Accuracy of in-context learning", _NOTE, table.fill_null("–"))
