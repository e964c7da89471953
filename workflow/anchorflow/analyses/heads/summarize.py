"""Means of heads' scores, and how reliably the examples rank the heads."""

from functools import partial

import numpy as np
import polars as pl

from anchorflow.analyses.heads import HEADS_SUMMARY, WITHOUT_CONTROL
from anchorflow.arrays import Array
from anchorflow.config.table import CORRELATION, SHARE
from anchorflow.random_draws import halves
from anchorflow.statistics import by_task
from anchorflow.statistics.by_task import texts_of
from anchorflow.statistics.estimates import (
    SeedStatistic,
    rank_correlations,
    weighted_mean_where_defined,
)

ATTENTION = ("prefix_matching", "duplicate", "previous", "gathers", "before", "to_right")
BOUNDS = {"reliability": CORRELATION, "agreement": CORRELATION}
# Of demonstrations or random sequences, so that heads are chosen on all that was measured.
WITHOUT_TEXTS = ("prefix_matching", "duplicate", "previous", "gathers", "before")


def head_matrix(rows: pl.DataFrame, column: str) -> Array:
    """A column of one score, task, and seed as [examples, L · H]; NaN where undefined."""
    ordered = rows.sort("example", "layer", "head")
    values: Array = ordered[column].fill_null(np.nan).to_numpy()
    return values.reshape(ordered["example"].n_unique(), -1)


def with_difference(rows: pl.DataFrame) -> pl.DataFrame:
    """Scores with the column ``difference``: minus their control, or the score if it has none.

    Null where a score that has a control lacks it.
    """
    control = pl.when(pl.col("score").is_in(WITHOUT_CONTROL)).then(0.0).otherwise("control")
    return rows.with_columns(difference=pl.col("value") - control)


def ranks_agree(values: Array) -> Array:
    """Rank correlation of the first half of [..., 2 · heads] with the second: [..., 1]."""
    first, second = np.split(values, 2, -1)
    return rank_correlations(first, second)[..., None]


def _with_half(rows: pl.DataFrame) -> pl.DataFrame:
    """With the column ``half``: one split of each task's examples, the same for all seeds."""
    splits = [
        halves(of_task["example"], 0).with_columns(task=pl.lit(task))
        for (task,), of_task in rows.group_by("task")
    ]
    return rows.join(pl.concat(splits), on=["task", "example"])


def _halved(rows: pl.DataFrame) -> SeedStatistic:
    """Means of one score over either half of the examples, [2 · heads]."""
    values = head_matrix(with_difference(rows), "difference")
    half_of = rows.unique("example").sort("example")["half"].to_numpy()
    halved = [np.where((half_of == half)[:, None], values, np.nan) for half in (0, 1)]
    return SeedStatistic(weighted_mean_where_defined(np.concatenate(halved, 1)), texts_of(rows))


def _exact_and_gradient(rows: pl.DataFrame) -> SeedStatistic:
    """Means of function-vector effects and of their estimates by gradient, [2 · heads]."""
    both = [head_matrix(rows.filter(score=s), "value") for s in ("function_vector", "gradient")]
    return SeedStatistic(weighted_mean_where_defined(np.concatenate(both, 1)), texts_of(rows))


def _mean(rows: pl.DataFrame, column: str) -> SeedStatistic:
    values = head_matrix(with_difference(rows), column)
    return SeedStatistic(weighted_mean_where_defined(values), texts_of(rows))


def summarize_heads(heads: pl.DataFrame, prompts: pl.DataFrame, confidence: float) -> pl.DataFrame:
    """Scores of every head, per task and averaged over tasks, with intervals."""
    by_task.require_examples(heads)
    tasks = prompts["task"].unique(maintain_order=True).to_list()
    places = heads.select("layer", "head").unique().sort("layer", "head")
    parts = []
    for (score,), rows in heads.group_by("score", maintain_order=True):
        for measure in ("value",) if score in WITHOUT_CONTROL else ("value", "difference"):
            keys = places.with_columns(score=pl.lit(score), measure=pl.lit(measure))
            estimates = by_task.estimates_by_task(
                rows, tasks, partial(_mean, column=measure), len(keys)
            )
            bounds = {"value": SHARE if score in ATTENTION else (-np.inf, np.inf)}
            parts.append(by_task.summary_rows(estimates, keys, rows, confidence, bounds))
        correlated = [("reliability", _halved, _with_half(rows))]
        if score == "gradient":
            both = heads.filter(pl.col("score").is_in(["function_vector", "gradient"]))
            correlated.append(("agreement", _exact_and_gradient, both))
        for measure, statistic, of in correlated:
            estimates = by_task.estimates_by_task(of, tasks, statistic, 2 * len(places))
            agreement = {task: estimate.map(ranks_agree) for task, estimate in estimates.items()}
            keys = pl.DataFrame(
                {"layer": [-1], "head": [-1], "score": [score], "measure": [measure]},
                schema_overrides=places.schema,
            )
            parts.append(by_task.summary_rows(agreement, keys, rows, confidence, BOUNDS))
    columns = parts[0].columns
    return by_task.summary_table(
        pl.concat([part.select(columns) for part in parts]), heads, HEADS_SUMMARY
    )
