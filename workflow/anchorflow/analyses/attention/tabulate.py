"""AUCROC_l and R_l of all models as a table, at five depths."""

import polars as pl

from anchorflow.present.page import Page, at_depths, pivoted

_NOTE = (
    "Layers counted from 0, five depths per model. auc: AUCROC_l (0.5 is chance); cumulative: "
    "R_l, the share of all layers' excess over 0.5 that is reached by this layer (– if there is "
    "no excess); auc_other: AUCROC_l of the demonstrations' other tokens; graded and graded_other: "
    "the same with labels' probabilities in place of the answer. unpredicted: number of "
    "classes that the model never predicts, which auc leaves out, summed over seeds. "
    "results/tables/attention.csv has every layer."
)


def tabulate_attention(summary: pl.DataFrame) -> Page:
    """All measures side by side, one row per model, task, and layer."""
    table = pivoted(at_depths(summary), ("model", "task", "layer", "unpredicted"), "measure")
    return Page(
        "Label-word attention as a predictor of the model's own predictions",
        _NOTE,
        table.fill_null("–"),
    )
