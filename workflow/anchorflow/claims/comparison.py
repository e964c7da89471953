"""The quantities that a claim compares (its ``over_depth``) by depth, for several models.

Models differ in their number of layers, so depth is relative: 0 before the first layer, 1 after
the last.
"""

from collections.abc import Mapping

import polars as pl

from anchorflow.claims.claim import Curve, Isolated
from anchorflow.statistics.by_task import AVERAGE
from anchorflow.statistics.change import RETAINED


def over_depth(curve: Curve, summaries: Mapping[str, pl.DataFrame], layers: int) -> pl.DataFrame:
    """A curve of one model, averaged over tasks: one row per layer with a value.

    ``depth`` is that of the layer's middle. Of several heads, the one with the highest mean counts.
    """
    chosen = {"task": AVERAGE, **curve.rows}
    rows = summaries[curve.table].filter(pl.col(name) == value for name, value in chosen.items())
    best = rows.drop_nulls("mean").sort("mean").group_by("layer").last().sort("layer")
    return best.select(((pl.col("layer") + 0.5) / layers).alias("depth"), "mean", "low", "high")


def isolated_depths(
    isolated: Isolated, loyalty: pl.DataFrame, variant: str, layers: int
) -> pl.DataFrame:
    """What one model retains with the largest number of isolated layers.

    ``start`` and ``end`` are relative depths.
    """
    rows = loyalty.filter(
        pl.col("task") == AVERAGE,
        pl.col("variant") == variant,
        pl.col("measure") == RETAINED,
        pl.col("positions") == isolated.positions,
        pl.col("side").is_in(isolated.sides),
    )
    share = pl.col("layers") / layers
    last = pl.col("side") == "last"
    return rows.filter(pl.col("layers") == pl.col("layers").max()).select(
        pl.when(last).then(1 - share).otherwise(0).alias("start"),
        pl.when(last).then(1).otherwise(share).alias("end"),
        "mean",
        "low",
        "high",
    )
