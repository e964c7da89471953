"""The heads of the highest scores of all models as a table."""

import polars as pl

from anchorflow.analyses.heads.plot import NAMES
from anchorflow.present.page import Page, pivoted
from anchorflow.statistics.by_task import AVERAGE

_HIGHEST = 5
_NOTE = (
    f"The {_HIGHEST} heads of the highest scores, averaged over tasks, with intervals over seeds "
    "and test texts; of scores with a control, those that exceed it most. reliability: rank "
    "correlation over all heads between halves of the texts. Heads are chosen and scored on the "
    "same texts, which overestimates them. results/tables/heads.csv has every head, score, and "
    "task."
)


def tabulate_heads(summary: pl.DataFrame) -> Page:
    """One row per model, score, and head."""
    averaged = summary.filter(pl.col("task") == AVERAGE, pl.col("score").is_in(NAMES))
    heads = averaged.filter(pl.col("layer") >= 0)
    keys = ["model", "score", "layer", "head"]
    ranked = (
        heads.sort(
            pl.col("measure") == "value",  # a difference from the control comes before the value
            "mean",
            descending=[False, True],
            nulls_last=True,
        )
        .unique(keys, keep="first", maintain_order=True)
        .group_by("model", "score", maintain_order=True)
        .head(_HIGHEST)
        .select(*keys, pl.int_range(pl.len()).over("model", "score").alias("rank"))
    )
    reliable = averaged.filter(measure="reliability").drop("layer", "head")
    scores, measures = pl.Enum(list(NAMES)), pl.Enum(["value", "difference", "reliability"])
    rows = pl.concat(
        [ranked.join(heads, on=keys), ranked.join(reliable, on=["model", "score"])], how="diagonal"
    ).sort("model", pl.col("score").cast(scores), "rank", pl.col("measure").cast(measures))
    table = pivoted(rows, keys, "measure")
    return Page("Attention heads of the highest scores", _NOTE, table.fill_null("–"))
