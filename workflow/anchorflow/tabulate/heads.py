"""The heads of all models that reconstruct predictions best."""

import polars as pl

from anchorflow.tabulate.page import Page, pivoted

_NOTE = (
    "The five heads whose attention, as weights of the demonstrations' labels, agrees most often "
    "with the model's predictions, by task and averaged over tasks; weights are the largest "
    "attention to a token of each demonstration. Means over seeds with intervals over "
    "seeds and examples. They were chosen on these very examples, so their agreement is too high; "
    "results/tables/regressors.md has it held out. Correlation is that of the weights with the "
    "similarity of next-token distributions after each text alone. "
    "results/tables/heads.csv has every head and kind of weights."
)


def tabulate_heads(heads: pl.DataFrame, most: int = 5) -> Page:
    """The ``most`` heads of highest agreement, by their largest attention, per model and task."""
    largest = heads.filter(pl.col("weights") == "max")
    best = (
        largest.filter(pl.col("measure") == "agreement")
        .sort("mean", descending=True, maintain_order=True)
        .group_by("model", "task", maintain_order=True)
        .head(most)
        .select("model", "task", "layer", "head", pl.int_range(pl.len()).alias("rank"))
    )
    tasks = pl.Enum(heads["task"].unique(maintain_order=True))
    shown = best.join(largest, on=["model", "task", "layer", "head"]).sort(
        "model", pl.col("task").cast(tasks), "rank", maintain_order=True
    )
    table = pivoted(shown, ("model", "task", "layer", "head"), "measure").fill_null("–")
    return Page("Heads whose attention reconstructs predictions", _NOTE, table)
