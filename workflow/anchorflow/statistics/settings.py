"""Estimates and the summary of an analysis that repeats every prediction under several settings."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import polars as pl

from anchorflow.arrays import Array
from anchorflow.config.table import SummaryTable
from anchorflow.statistics import by_task
from anchorflow.statistics.change import share_of_effect
from anchorflow.statistics.estimates import Estimate, SeedStatistic, weighted_mean_where_defined


def settings_of(rows: pl.DataFrame, table: SummaryTable) -> pl.DataFrame:
    """The settings that occur in rows, in order."""
    return rows.select(table.settings).unique(maintain_order=True).sort(table.settings)


def draws_of(measured: pl.DataFrame, table: SummaryTable) -> pl.DataFrame:
    """The number of draws of each setting, as the column ``draws``."""
    draws = pl.col("draw").n_unique().cast(pl.Int32).alias("draws")
    return measured.group_by(table.settings).agg(draws)


def mean_of_draws(rows: pl.DataFrame, measures: Sequence[str]) -> pl.DataFrame:
    """Columns example and ``measures`` of one setting and seed, averaged over draws."""
    return rows.group_by("example").agg(pl.col(*measures).mean()).sort("example")


def estimate_settings(
    measured: pl.DataFrame, settings: pl.DataFrame, measures: Sequence[str]
) -> Estimate:
    """The measures of each setting, averaged first over the draws of each seed.

    S settings and M measures give [S · M] values: means over texts or, of a measure with a column
    that ends in ``_whole``, the mean over texts and seeds as a share of that column's. ``measured``
    has one row per seed, example, draw, and setting, of one task.
    """
    wholes = [f"{name}_whole" for name in measures if f"{name}_whole" in measured.columns]
    columns, count = [*measures, *wholes], len(settings) * len(measures)

    def of_seed(rows: pl.DataFrame) -> SeedStatistic:
        texts = rows.select(pl.col("example").unique().sort())
        values = [
            texts.join(
                mean_of_draws(chosen, columns), on="example", how="left", maintain_order="left"
            )
            .select(columns)
            .fill_null(np.nan)
            .to_numpy()
            for setting in settings.iter_rows(named=True)
            for chosen in [rows.filter(pl.col(n).eq_missing(value) for n, value in setting.items())]
        ]
        ordered = [each[:, : len(measures)] for each in values]
        ordered += [each[:, len(measures) :] for each in values]
        return SeedStatistic(
            weighted_mean_where_defined(np.concatenate(ordered, 1)), by_task.texts_of(rows)
        )

    shares = [
        order * len(measures) + measures.index(name.removesuffix("_whole"))
        for order in range(len(settings))
        for name in wholes
    ]

    def of_wholes(means: Array) -> Array:
        found, whole = means[..., :count].copy(), means[..., count:]
        found[..., shares] = share_of_effect(found[..., shares], whole)
        return found

    return by_task.estimate_over_seeds(measured, of_seed).map(of_wholes)


def summarize_settings(
    table: SummaryTable,
    settings: pl.DataFrame | None,
    of_task: Callable[[pl.DataFrame], Estimate],
    measured: pl.DataFrame,
    prompts: pl.DataFrame,
    confidence: float,
    *,
    counted: pl.DataFrame | None = None,
    further: Iterable[pl.DataFrame] = (),
    measures: Sequence[str] = (),
) -> pl.DataFrame:
    """Every measure of every setting, per task and averaged over tasks, with intervals.

    Every seed draws its own positions, edges, or donors, so intervals over seeds cover these draws.
    ``of_task`` maps the measured rows of one task to an estimate of [settings · measures]; without
    ``settings`` there is a single one. Examples, texts and seeds are counted in ``counted``, by
    default in ``measured``. ``further`` columns are joined by those that they share with the
    summary.
    """
    named = pl.DataFrame({"measure": measures or table.measured})
    keys = named if settings is None else settings.join(named, how="cross")
    tasks = prompts["task"].unique(maintain_order=True).to_list()
    estimates = by_task.over_tasks(measured, tasks, of_task, len(keys))
    source = measured if counted is None else counted
    rows = by_task.summary_rows(estimates, keys, source, confidence, table.bounds)
    for columns in further:
        shared = [name for name in columns.columns if name in rows.columns]
        rows = rows.join(columns, shared, "left", nulls_equal=True, maintain_order="left")
    return by_task.summary_table(rows, prompts, table)
