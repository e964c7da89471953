"""Means of heads' scores, and how reliably the examples rank the heads."""

from functools import partial

import numpy as np
import polars as pl
from scipy.stats import rankdata

from anchorflow.analyses.heads.schema import HEADS_SUMMARY
from anchorflow.arrays import Array
from anchorflow.random_draws import halves
from anchorflow.statistics.by_task import (
    CORRELATION,
    SHARE,
    estimates_by_task,
    require_examples,
    summary_rows,
    summary_table,
    texts_of,
)
from anchorflow.statistics.estimates import SeedStatistic, weighted_mean_where_defined

ATTENTION = ("prefix_matching", "duplicate", "previous", "gathers", "before", "to_right")
BOUNDS = {"reliability": CORRELATION}


def head_matrix(rows: pl.DataFrame, column: str) -> Array:
    """A column of one score, task, and seed as [examples, L · H]; NaN where undefined."""
    ordered = rows.sort("example", "layer", "head")
    values: Array = ordered[column].fill_null(np.nan).to_numpy()
    return values.reshape(ordered["example"].n_unique(), -1)


def with_difference(rows: pl.DataFrame) -> pl.DataFrame:
    """Scores with the column ``difference``: minus their control, or the score if it has none."""
    return rows.with_columns(difference=pl.col("value") - pl.col("control").fill_null(0))


def ranks_agree(values: Array) -> Array:
    """Rank correlation of the first half of [..., 2 · heads] with the second: [..., 1]."""
    ranks = [rankdata(half, axis=-1) for half in np.split(values, 2, -1)]
    centered = [rank - rank.mean(-1, keepdims=True) for rank in ranks]
    product = (centered[0] * centered[1]).sum(-1, keepdims=True)
    size = np.sqrt(np.prod([(of**2).sum(-1, keepdims=True) for of in centered], axis=0))
    agreement: Array = np.divide(product, size, out=np.full(size.shape, np.nan), where=size > 0)
    return agreement


def _halved(rows: pl.DataFrame) -> SeedStatistic:
    """Means of one score over either half of a seed's examples, [2 · heads]."""
    values = head_matrix(with_difference(rows), "difference")
    half_of = halves(rows["example"], int(rows["seed"][0])).sort("example")["half"].to_numpy()
    halved = [np.where((half_of == half)[:, None], values, np.nan) for half in (0, 1)]
    return SeedStatistic(weighted_mean_where_defined(np.concatenate(halved, 1)), texts_of(rows))


def _mean(rows: pl.DataFrame, column: str) -> SeedStatistic:
    values = head_matrix(with_difference(rows), column)
    return SeedStatistic(weighted_mean_where_defined(values), texts_of(rows))


def summarize_heads(heads: pl.DataFrame, prompts: pl.DataFrame, confidence: float) -> pl.DataFrame:
    """Scores of every head, per task and averaged over tasks, with intervals.

    Parameters
    ----------
    heads, prompts : DataFrame
        Tables ``heads`` and ``prompts`` of one model, all tasks and seeds.

    Returns
    -------
    DataFrame
        Columns of ``HEADS_SUMMARY``.

    Raises
    ------
    InputError
        If there are no scores.
    """
    require_examples(heads)
    tasks = prompts["task"].unique(maintain_order=True).to_list()
    places = heads.select("layer", "head").unique().sort("layer", "head")
    parts = []
    for (score,), rows in heads.group_by("score", maintain_order=True):
        has_control = rows["control"].is_not_null().any()
        for measure in ("value", "difference") if has_control else ("value",):
            keys = places.with_columns(score=pl.lit(score), measure=pl.lit(measure))
            estimates = estimates_by_task(rows, tasks, partial(_mean, column=measure), len(keys))
            bounds = {"value": SHARE if score in ATTENTION else (-np.inf, np.inf)}
            parts.append(summary_rows(estimates, keys, rows, confidence, bounds))
        estimates = estimates_by_task(rows, tasks, _halved, 2 * len(places))
        agreement = {task: estimate.map(ranks_agree) for task, estimate in estimates.items()}
        keys = pl.DataFrame(
            {"layer": [-1], "head": [-1], "score": [score], "measure": ["reliability"]},
            schema_overrides=places.schema,
        )
        parts.append(summary_rows(agreement, keys, rows, confidence, BOUNDS))
    columns = parts[0].columns
    return summary_table(pl.concat([part.select(columns) for part in parts]), heads, HEADS_SUMMARY)
