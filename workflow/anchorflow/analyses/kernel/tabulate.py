"""The best heads of all models as a table."""

import polars as pl

from anchorflow.present.page import Page, pivoted

_NOTE = (
    "The five heads whose kernel regression agrees most often with the model's predictions, by "
    "task and averaged over tasks; the weight of a demonstration's label is the largest attention "
    "to one of its tokens. Means over seeds with intervals over seeds and test texts. Heads are "
    "chosen and scored on the same texts, which overestimates their agreement; "
    "results/tables/regressors.md has held-out scores. correlation: of the weights with the "
    "similarity of next-token distributions after each text alone. results/tables/kernel.csv has "
    "every head and kind of weights."
)


def tabulate_kernel(summary: pl.DataFrame) -> Page:
    """The measures side by side, one row per model, task, and head."""
    table = pivoted(_best_heads(summary), ("model", "task", "layer", "head"), "measure")
    return Page("Heads whose attention reconstructs predictions", _NOTE, table.fill_null("–"))


def _best_heads(heads: pl.DataFrame) -> pl.DataFrame:
    """The five heads of highest agreement per model and task, with the largest attention."""
    largest = heads.filter(weights="max")
    best = (
        largest.filter(measure="agreement")
        .sort("mean", descending=True, maintain_order=True)
        .group_by("model", "task", maintain_order=True)
        .head(5)
        .select("model", "task", "layer", "head", pl.int_range(pl.len()).alias("rank"))
    )
    tasks = pl.Enum(heads["task"].unique(maintain_order=True))
    return best.join(largest, on=["model", "task", "layer", "head"]).sort(
        "model", pl.col("task").cast(tasks), "rank", maintain_order=True
    )
