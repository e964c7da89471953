"""Estimates per task and averaged over tasks, as summary rows with counts."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import polars as pl
import pyarrow as pa

from anchorflow.arrays import Array
from anchorflow.config.errors import InputError
from anchorflow.random_draws import generator
from anchorflow.schemas.frames import keyed
from anchorflow.summarize.statistics import (
    Estimate,
    average,
    bootstrap,
    weighted_mean_where_defined,
)

AVERAGE = "average"

# For one seed: maps weights [R, examples] to values [R, K]; and the number of examples.
SeedStatistic = tuple[Callable[[Array], Array], int]


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


def undefined(values: int, replicates: int) -> Estimate:
    """The estimate for a task of which no prompt could be run."""
    unknown = np.full((replicates, values), np.nan)
    return Estimate(unknown[0], unknown)


def over_tasks(
    measured: pl.DataFrame,
    tasks: Sequence[str],
    of_task: Callable[[pl.DataFrame], Estimate],
    values: int,
    replicates: int,
) -> dict[str, Estimate]:
    """The estimate of every task, and their average.

    Parameters
    ----------
    measured : DataFrame
        Rows of all tasks and seeds.
    of_task : function
        Maps the rows of one task to an estimate of [K].
    values : int
        K, for the undefined estimates of tasks without rows.
    """
    estimates: dict[str, Estimate] = {}
    for task in tasks:
        rows = measured.filter(pl.col("task") == task)
        estimates[task] = undefined(values, replicates) if rows.is_empty() else of_task(rows)
    estimates[AVERAGE] = average(list(estimates.values()))
    return estimates


def bootstrap_seeds(
    rows: pl.DataFrame,
    statistic_of_seed: Callable[[pl.DataFrame], SeedStatistic],
    replicates: int,
    purpose: str,
) -> Estimate:
    """A statistic of one task, averaged over its seeds, with a bootstrap.

    Statistics with the same purpose, task, and numbers of examples resample the same examples, so
    differences between them are paired.

    Parameters
    ----------
    rows : DataFrame
        Rows of one task and all its seeds.
    statistic_of_seed : function
        Maps the rows of one seed to its statistic, [K] for each replicate.
    purpose : str
        Name of the random draws.
    """
    seeds = [statistic_of_seed(seed) for seed in per_seed(rows)]
    return bootstrap(
        [statistic for statistic, _ in seeds],
        [examples for _, examples in seeds],
        replicates,
        generator(0, purpose, rows["task"][0]),
    )


def estimates_by_task(
    measured: pl.DataFrame,
    tasks: Sequence[str],
    statistic_of_seed: Callable[[pl.DataFrame], SeedStatistic],
    values: int,
    replicates: int,
    purpose: str,
) -> dict[str, Estimate]:
    """:func:`bootstrap_seeds` of every task, and the average; see :func:`over_tasks`."""

    def of_task(rows: pl.DataFrame) -> Estimate:
        return bootstrap_seeds(rows, statistic_of_seed, replicates, purpose)

    return over_tasks(measured, tasks, of_task, values, replicates)


def mean_by_task(
    measured: pl.DataFrame,
    tasks: Sequence[str],
    values_of_seed: Callable[[pl.DataFrame], Array],
    values: int,
    replicates: int,
    purpose: str,
) -> dict[str, Estimate]:
    """As :func:`estimates_by_task`, for the mean over examples.

    Parameters
    ----------
    values_of_seed : function
        Maps the rows of one task and seed to values [examples, K], NaN where undefined.
    """

    def statistic_of_seed(rows: pl.DataFrame) -> SeedStatistic:
        of_examples = values_of_seed(rows)
        return weighted_mean_where_defined(of_examples), len(of_examples)

    return estimates_by_task(measured, tasks, statistic_of_seed, values, replicates, purpose)


def skipped_prompts(prompts: pl.DataFrame, protocol: str) -> pl.DataFrame:
    """Number of skipped prompts of one demonstration protocol, per task and in total.

    Returns
    -------
    DataFrame
        Columns ``task`` (with ``"average"`` for the sum) and ``skipped``.
    """
    counts = (
        prompts.filter(pl.col("demonstrations") == protocol)
        .group_by("task", maintain_order=True)
        .agg(pl.col("skipped").is_not_null().sum().cast(pl.Int32))
    )
    total = counts.select(pl.lit(AVERAGE).alias("task"), pl.col("skipped").sum())
    return pl.concat([counts, total])


def summary_rows(
    estimates: Mapping[str, Estimate], keys: pl.DataFrame, source: pl.DataFrame, confidence: float
) -> pl.DataFrame:
    """One row per task and key, with mean, interval, and counts of examples and seeds.

    Parameters
    ----------
    estimates : task to Estimate of [K]
        For the entry ``"average"``, the examples of all tasks are counted.
    keys : DataFrame
        K rows: the key columns of each value.
    source : DataFrame
        The measured rows, for counting examples and seeds.
    """
    parts = []
    for task, estimate in estimates.items():
        rows = source if task == AVERAGE else source.filter(pl.col("task") == task)
        low, high = estimate.interval(confidence)
        parts.append(
            keys.with_columns(
                pl.lit(task).alias("task"),
                pl.Series("mean", estimate.values).fill_nan(None),
                pl.Series("low", low).fill_nan(None),
                pl.Series("high", high).fill_nan(None),
                pl.lit(rows.select("task", "seed", "example").n_unique()).alias("examples"),
                pl.lit(rows["seed"].n_unique()).alias("seeds"),
            )
        )
    return pl.concat(parts)


def summary_table(rows: pl.DataFrame, source: pl.DataFrame, schema: pa.Schema) -> pl.DataFrame:
    """Complete summary rows to the columns of the table."""
    return keyed(rows, {"model": source["model"][0]}, schema)
