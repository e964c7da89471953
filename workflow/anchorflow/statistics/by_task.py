"""Estimates per task and averaged over tasks, as summary rows with counts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from anchorflow.arrays import Array
from anchorflow.config.errors import InputError
from anchorflow.config.table import ANY, Table
from anchorflow.schemas.frames import keyed
from anchorflow.statistics.estimates import (
    Estimate,
    SeedStatistic,
    average,
    estimate,
    weighted_mean_where_defined,
    weighted_ratio,
)

AVERAGE = "average"

# Columns of a paper's published numbers, for comparison with summaries.
PUBLISHED = {"task": pl.String, "method": pl.String, "measure": pl.String, "published": pl.Float64}


def per_seed(frame: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """The rows of each seed, in the order of seeds."""
    for _, rows in frame.sort("seed").group_by("seed", maintain_order=True):
        yield rows


def require_examples(measured: pl.DataFrame) -> None:
    """Raise InputError if nothing was measured, which happens when no prompt fits the context."""
    if measured.is_empty():
        raise InputError(
            "every prompt exceeds the model's context, so there is nothing to analyze; lower "
            "demonstrations_per_label or choose a model with a longer context."
        )


def texts_of(rows: pl.DataFrame) -> NDArray[np.int64]:
    """The test texts of one seed's rows, increasing; a number is the same text in all seeds."""
    texts: NDArray[np.int64] = rows["example"].unique().sort().cast(pl.Int64).to_numpy()
    return texts


def undefined(values: int) -> Estimate:
    """The estimate for a task without a prompt that could be run."""
    return Estimate(np.full(values, np.nan), ())


def over_tasks(
    measured: pl.DataFrame,
    tasks: Sequence[str],
    of_task: Callable[[pl.DataFrame], Estimate],
    values: int,
) -> dict[str, Estimate]:
    """The estimate of [K] of every task from its rows, and their average.

    K is ``values``, for the undefined estimates of tasks without rows.
    """
    estimates: dict[str, Estimate] = {}
    for task in tasks:
        rows = measured.filter(pl.col("task") == task)
        estimates[task] = undefined(values) if rows.is_empty() else of_task(rows)
    estimates[AVERAGE] = average(list(estimates.values()))
    return estimates


def estimate_over_seeds(
    rows: pl.DataFrame, statistic_of_seed: Callable[[pl.DataFrame], SeedStatistic]
) -> Estimate:
    """A statistic of [K] of one task's rows, averaged over its seeds."""
    return estimate([statistic_of_seed(seed) for seed in per_seed(rows)])


def estimates_by_task(
    measured: pl.DataFrame,
    tasks: Sequence[str],
    statistic_of_seed: Callable[[pl.DataFrame], SeedStatistic],
    values: int,
) -> dict[str, Estimate]:
    """:func:`estimate_over_seeds` of every task, and the average; see :func:`over_tasks`."""
    of_task = partial(estimate_over_seeds, statistic_of_seed=statistic_of_seed)
    return over_tasks(measured, tasks, of_task, values)


def mean_by_task(
    measured: pl.DataFrame,
    tasks: Sequence[str],
    values_of_seed: Callable[[pl.DataFrame], Array],
    values: int,
) -> dict[str, Estimate]:
    """As :func:`estimates_by_task`, for the mean over examples.

    ``values_of_seed`` maps the rows of one task and seed to values [examples, K], NaN where
    undefined; examples in increasing order.
    """

    def statistic_of_seed(rows: pl.DataFrame) -> SeedStatistic:
        return SeedStatistic(weighted_mean_where_defined(values_of_seed(rows)), texts_of(rows))

    return estimates_by_task(measured, tasks, statistic_of_seed, values)


def ratio_of_seed(
    rows: pl.DataFrame, settings: Sequence[Mapping[str, Any]], measures: Sequence[str]
) -> SeedStatistic:
    """Measures that are ratios, for each setting in one seed, summed over its draws.

    For each measure, ``rows`` has a column of its name and one that ends in ``_whole``: each text's
    contributions to the numerator and to the denominator of the ratio. ``settings`` are column
    values that select rows. The statistic is [settings · measures], NaN where the denominator is 0.
    """
    texts = rows.select(pl.col("example").unique().sort())
    parts: list[Array] = []
    wholes: list[Array] = []
    for setting in settings:
        chosen = rows.filter([pl.col(name) == value for name, value in setting.items()])
        sums = chosen.group_by("example").agg(
            pl.col(name).sum() for measure in measures for name in (measure, f"{measure}_whole")
        )
        ordered = texts.join(sums, on="example", how="left", maintain_order="left").fill_null(0)
        parts.append(ordered.select(measures).to_numpy())
        wholes.append(ordered.select(f"{measure}_whole" for measure in measures).to_numpy())
    ratio = weighted_ratio(np.concatenate(parts, 1), np.concatenate(wholes, 1))
    return SeedStatistic(ratio, texts_of(rows))


def skipped_prompts(
    prompts: pl.DataFrame, protocol: str, answered: pl.DataFrame | None = None
) -> pl.DataFrame:
    """Number of skipped prompts of one demonstration protocol, per task and in total.

    The task ``"average"`` has the sum. ``answered`` are the rows that were measured; prompts
    without a row were skipped as well, since a whole label word after them exceeds the context.
    """
    chosen, skipped = prompts.filter(demonstrations=protocol), pl.col("skipped").is_not_null()
    if answered is not None:
        keys = ["task", "seed", "example"]
        known = answered.select(keys).unique().with_columns(answered=pl.lit(True))
        chosen = chosen.join(known, on=keys, how="left", maintain_order="left")
        skipped |= pl.col("answered").is_null()
    counts = chosen.group_by("task", maintain_order=True).agg(
        skipped.sum().cast(pl.Int32).alias("skipped")
    )
    total = counts.select(pl.lit(AVERAGE).alias("task"), pl.col("skipped").sum())
    return pl.concat([counts, total])


def summary_rows(
    estimates: Mapping[str, Estimate],
    keys: pl.DataFrame,
    source: pl.DataFrame,
    confidence: float,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    by: str = "measure",
) -> pl.DataFrame:
    """One row per task and key, with mean, interval, and counts of examples, texts and seeds.

    ``keys`` are the key columns of the K values of each estimate. For the entry ``"average"``, the
    examples of all tasks in ``source`` are counted. ``bounds`` are the least and greatest possible
    value by entry of the key column ``by``; others have none.
    """
    within = bounds or {}
    named: Sequence[Any] = keys[by].to_list() if within else [None] * len(keys)
    least, most = np.array([within.get(name, ANY) for name in named]).reshape(-1, 2).T
    change = np.isfinite(least) & np.isfinite(most)  # others have no unit in which a text differs
    parts = []
    for task, of_task in estimates.items():
        rows = source if task == AVERAGE else source.filter(pl.col("task") == task)
        low, high = of_task.interval(confidence, change.astype(float))
        low, high = (np.clip(end, least, most) for end in (low, high))
        parts.append(
            keys.with_columns(
                pl.lit(task).alias("task"),
                pl.Series("mean", of_task.values).fill_nan(None),
                pl.Series("low", low).fill_nan(None),
                pl.Series("high", high).fill_nan(None),
                pl.lit(rows.select("task", "seed", "example").n_unique()).alias("examples"),
                pl.lit(rows.select("task", "example").n_unique()).alias("texts"),
                pl.lit(rows["seed"].n_unique()).alias("seeds"),
            )
        )
    return pl.concat(parts)


def summary_table(
    rows: pl.DataFrame, source: pl.DataFrame, table: Table, skipped: pl.DataFrame | None = None
) -> pl.DataFrame:
    """The summary rows with all columns of the table, and the count of :func:`skipped_prompts`."""
    if skipped is not None:
        rows = rows.join(skipped, on="task", maintain_order="left")
    return keyed(rows, {"model": source["model"][0]}, table)
