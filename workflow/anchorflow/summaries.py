"""What all analyses share: estimates per task and averaged, as rows with their counts."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import polars as pl
import pyarrow as pa

from anchorflow.draws import generator
from anchorflow.errors import InputError
from anchorflow.statistics import (
    Array,
    Estimate,
    average,
    bootstrap,
    weighted_mean_where_defined,
)
from anchorflow.tables import keyed

AVERAGE = "average"


def per_seed(frame: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """The rows of one seed after the other, in the order of the seeds."""
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
    """The estimate of a task none of whose prompts could be run."""
    unknown = np.full((replicates, values), np.nan)
    return Estimate(unknown[0], unknown)


def mean_by_task(
    measured: pl.DataFrame,
    tasks: Sequence[str],
    of_seed: Callable[[pl.DataFrame], Array],
    values: int,
    replicates: int,
    purpose: str,
) -> dict[str, Estimate]:
    """Means over examples and seeds of every task, with a bootstrap, and their average.

    Parameters
    ----------
    measured : DataFrame
        Of all tasks and seeds.
    of_seed : function
        From the rows of one task and seed to values [examples, K], NaN where undefined.
    values : int
        K, for tasks without rows, whose means are undefined.
    purpose : str
        Names the draws.
    """
    estimates: dict[str, Estimate] = {}
    for task in tasks:
        rows = measured.filter(pl.col("task") == task)
        if rows.is_empty():
            estimates[task] = undefined(values, replicates)
            continue
        seeds = [of_seed(seed) for seed in per_seed(rows)]
        estimates[task] = bootstrap(
            [weighted_mean_where_defined(of_examples) for of_examples in seeds],
            [len(of_examples) for of_examples in seeds],
            replicates,
            generator(0, purpose, task),
        )
    estimates[AVERAGE] = average(list(estimates.values()))
    return estimates


def skipped_prompts(prompts: pl.DataFrame, protocol: str) -> pl.DataFrame:
    """How many prompts of one demonstration protocol were not run, per task and over all.

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
    """One row per task and key, with mean, interval, and what was averaged.

    Parameters
    ----------
    estimates : task to Estimate of [K]
        The entry ``"average"`` counts the examples of all tasks.
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
    """Complete summary rows to the table's columns."""
    return keyed(rows, {"model": source["model"][0]}, schema)
