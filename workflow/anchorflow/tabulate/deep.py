"""The deep summaries of all models, at five depths."""

import polars as pl

from anchorflow.tabulate.page import Page, at_depths, pivoted

_NOTE = (
    "Layers counted from 0, five depths per model. auc: AUCROC_l (0.5 is chance); "
    "cumulative: R_l, the share of all layers' excess over 0.5 reached by this layer, "
    "and – where there is no excess to share. unpredicted: classes that the model "
    "never predicts, summed over seeds and left out. results/tables/deep.csv has "
    "every layer."
)


def tabulate_deep(deep: pl.DataFrame) -> Page:
    """AUCROC_l and R_l at five depths, one row per model, task, and layer."""
    table = pivoted(at_depths(deep), ("model", "task", "layer", "unpredicted"), "measure")
    return Page("Label-word attention as a predictor of the model's own predictions", _NOTE, table)
