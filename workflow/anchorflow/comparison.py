"""What a claim compares, over the depth of several models.

Models differ in their number of layers, so that depth is relative: 0 before the first layer, 1
after the last.
"""

from collections.abc import Mapping
from typing import NamedTuple

import polars as pl

from anchorflow.summaries import AVERAGE


class Curve(NamedTuple):
    """Rows of a summary, one per layer, or one per layer and head, of which the best are taken."""

    name: str
    table: str  # flow, deep, confusion or heads
    rows: Mapping[str, str]  # columns and the values that the rows have in them


class Depth(NamedTuple):
    """What a claim compares, layer by layer."""

    measure: str
    curves: tuple[Curve, ...]


class Isolated(NamedTuple):
    """Label loyalty where tokens are isolated in so many layers at one end."""

    name: str
    positions: str
    sides: tuple[str, ...]


def _flow(*flows: str) -> Depth:
    curves = (Curve(f"S_{f[2:]}", "flow", {"flow": f, "scale": "proportion"}) for f in flows)
    return Depth("share of the three flows", tuple(curves))


OVER_DEPTH: Mapping[str, Depth] = {
    "flow_early": _flow("s_wp", "s_pq"),
    "flow_decays": _flow("s_wp"),
    "flow_late": _flow("s_pq", "s_wp"),
    "flow_wp_over_ww": _flow("s_wp", "s_ww"),
    "flow_pq_over_ww": _flow("s_pq", "s_ww"),
    "deep_auc_rises": Depth("AUCROC_l", (Curve("AUCROC_l", "deep", {"measure": "auc"}),)),
    "deep_gain_late": Depth("R_l", (Curve("R_l", "deep", {"measure": "cumulative"}),)),
    "diagnosis_predicts_confusion": Depth(
        "rank correlation of key distance with AUC",
        (Curve("rank correlation", "confusion", {"measure": "correlation"}),),
    ),
    "heads_reconstruct": Depth(
        "agreement of each layer's best head",
        (Curve("best head", "heads", {"measure": "agreement", "weights": "max"}),),
    ),
}

ISOLATED: Mapping[str, tuple[Isolated, ...]] = {
    "isolation_label_over_random": (
        Isolated("label words", "label", ("first",)),
        Isolated("random tokens", "random", ("first",)),
    ),
    "isolation_first_over_last": (Isolated("label words", "label", ("first", "last")),),
}


def over_depth(curve: Curve, summaries: Mapping[str, pl.DataFrame], layers: int) -> pl.DataFrame:
    """A curve of one model, averaged over tasks.

    Parameters
    ----------
    summaries : mapping
        Of one model: ``flow``, ``deep``, ``confusion`` and ``heads``.
    layers : int
        Layers of the model.

    Returns
    -------
    DataFrame
        Columns ``depth`` (of a layer's middle), ``mean``, ``low``, ``high``; a row per layer that
        has a value, of several heads the one with the highest mean.
    """
    chosen = {"task": AVERAGE, **curve.rows}
    rows = summaries[curve.table].filter(pl.col(name) == value for name, value in chosen.items())
    best = rows.drop_nulls("mean").sort("mean").group_by("layer").last().sort("layer")
    return best.select(((pl.col("layer") + 0.5) / layers).alias("depth"), "mean", "low", "high")


def isolated_depths(
    isolated: Isolated, loyalty: pl.DataFrame, variant: str, layers: int
) -> pl.DataFrame:
    """Where tokens are isolated in one model, as many layers as at most, and what that leaves.

    Parameters
    ----------
    loyalty : DataFrame
        Columns of ``tables.LOYALTY``, of one model.
    variant : str
        Of isolation.

    Returns
    -------
    DataFrame
        Columns ``start``, ``end`` (relative depths), ``mean``, ``low``, ``high`` (label loyalty).
    """
    rows = loyalty.filter(
        pl.col("task") == AVERAGE,
        pl.col("variant") == variant,
        pl.col("measure") == "label_loyalty",
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
