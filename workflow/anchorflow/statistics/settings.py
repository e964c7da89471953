"""Estimates and summaries of predictions that are repeated, under settings or in ways to prompt."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

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


def unclear_wholes(rows: pl.DataFrame, shares: Sequence[str], confidence: float) -> list[str]:
    """The shares whose whole is not clearly above 0: the interval of its mean reaches 0.

    ``rows`` have, for each text of one task and seed, a column that ends in ``_whole`` per share.
    """

    def of_seed(seed: pl.DataFrame) -> SeedStatistic:
        values = seed.sort("example").select(f"{name}_whole" for name in shares).to_numpy()
        return SeedStatistic(weighted_mean_where_defined(values), by_task.texts_of(seed))

    low, _ = by_task.estimate_over_seeds(rows, of_seed).interval(confidence)
    return [name for name, end in zip(shares, low, strict=True) if not end > 0]


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
    ``settings`` there is a single one. Examples, texts and seeds of each setting are counted in
    ``counted``, by default in ``measured``, by the columns of settings that it has. The average of
    a setting that is measured in fewer tasks than others are would not be comparable with theirs,
    and is undefined. ``further`` columns are joined by those that they share with the summary.
    """
    named = pl.DataFrame({"measure": measures or table.measured})
    keys = named if settings is None else settings.join(named, how="cross")
    tasks = prompts["task"].unique(maintain_order=True).to_list()
    estimates = by_task.over_tasks(measured, tasks, of_task, len(keys))
    source = measured if counted is None else counted
    rows = by_task.summary_rows(estimates, keys, source, confidence, table.bounds)
    if settings is not None:
        rows = _with_counts(rows, source, [n for n in settings.columns if n in source.columns])
    for columns in further:
        shared = [name for name in columns.columns if name in rows.columns]
        rows = rows.join(columns, shared, "left", nulls_equal=True, maintain_order="left")
    return by_task.summary_table(rows, prompts, table)


def _with_counts(rows: pl.DataFrame, source: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Summary rows with the counts of their own setting, and without averages over some tasks."""
    texts = source.select("task", *names, "seed", text=pl.struct("task", "example"))
    counts = (
        pl.concat([texts, texts.with_columns(task=pl.lit(by_task.AVERAGE))])
        .group_by("task", *names)
        .agg(
            examples=pl.struct("seed", "text").n_unique(),
            texts=pl.col("text").n_unique(),
            seeds=pl.col("seed").n_unique(),
            tasks=pl.col("text").struct.field("task").n_unique(),
        )
    )
    rows = rows.drop("examples", "texts", "seeds").join(
        counts, ["task", *names], "left", nulls_equal=True, maintain_order="left"
    )
    some = (pl.col("task") == by_task.AVERAGE) & (pl.col("tasks") < source["task"].n_unique())
    return rows.with_columns(
        pl.col("examples", "texts", "seeds").fill_null(0).cast(pl.Int32),
        pl.when(~some).then(pl.col("mean", "low", "high")),
    ).drop("tasks")


CELL = ("task", "seed", "example")


class Ways(NamedTuple):
    """Ways to prompt, by their names in a column of the predictions, and their measures."""

    column: str
    names: Sequence[str]  # in the order of summaries
    plain: str  # the way that the others are compared with
    alone: Mapping[str, pl.Expr]  # measures over the examples run in a way
    # Over those also run plainly, with columns ``plain``, the prediction, and ``plain_in_labels``.
    paired: Mapping[str, pl.Expr]
    of_plain: Sequence[str]  # measures of the plain way

    @property
    def measures(self) -> tuple[str, ...]:
        return (*self.alone, *self.paired)

    def statistic(self, rows: pl.DataFrame, name: str) -> SeedStatistic:
        """The statistic of all measures of one way and seed.

        It maps weights [R, examples] to [R, measures], NaN where no example has weight, and comes
        with the examples run in any way.
        """
        plain = rows.filter(pl.col(self.column) == self.plain)
        before = plain.select("example", plain="prediction", plain_in_labels="in_labels")
        values = (
            rows.select(pl.col("example").unique())
            .join(rows.filter(pl.col(self.column) == name), on="example", how="left")
            .join(before, on="example", how="left")
            .sort("example")
            .select(**self.alone, **self.paired)
            .cast(pl.Float64)
            .fill_null(np.nan)
            .to_numpy()
        )  # [examples, measures]
        return SeedStatistic(weighted_mean_where_defined(values), by_task.texts_of(rows))

    def summarize(
        self,
        predictions: pl.DataFrame,
        protocols: pl.DataFrame,
        table: SummaryTable,
        confidence: float,
    ) -> pl.DataFrame:
        """Summary rows by task and way.

        ``protocols`` has the way in the column ``demonstrations``. For paired measures,
        ``examples`` counts pairs, and ``skipped`` counts pairs of which either prompt was not run.
        """
        by_task.require_examples(predictions)
        tasks = protocols["task"].unique(maintain_order=True).to_list()
        plain = predictions.filter(pl.col(self.column) == self.plain)
        rows = partial(self._rows, confidence=confidence, bounds=table.bounds)
        parts = []
        for name in [way for way in self.names if way in protocols["demonstrations"]]:
            run = predictions.filter(pl.col(self.column) == name)
            of_seed = partial(self.statistic, name=name)
            estimates = by_task.estimates_by_task(predictions, tasks, of_seed, len(self.measures))
            # An average over fewer tasks would not be comparable with that of the plain way.
            if set(run["task"]) != set(plain["task"]):
                estimates[by_task.AVERAGE] = by_task.undefined(len(self.measures))
            is_plain = name == self.plain
            skipped = by_task.skipped_prompts(protocols, name, run)
            measures = self.of_plain if is_plain else [*self.alone]
            parts.append(rows(estimates, measures, name, run, skipped))
            if not is_plain:
                pairs = run.join(plain, on=CELL, how="semi")
                skipped = self._skipped_pairs(protocols, name, pairs)
                parts.append(rows(estimates, [*self.paired], name, pairs, skipped))
        return by_task.summary_table(pl.concat(parts), predictions, table)

    def _rows(
        self,
        estimates: Mapping[str, Estimate],
        measures: Sequence[str],
        name: str,
        source: pl.DataFrame,
        skipped: pl.DataFrame,
        confidence: float,
        bounds: Mapping[str, tuple[float, float]],
    ) -> pl.DataFrame:
        """Summary rows of some of the measures, which cover the examples of ``source``."""
        places = [self.measures.index(measure) for measure in measures]
        some = {task: of.map(lambda values: values[..., places]) for task, of in estimates.items()}
        rows = by_task.summary_rows(
            some, pl.DataFrame({"measure": measures}), source, confidence, bounds
        )
        return rows.join(skipped, on="task", maintain_order="left").with_columns(
            pl.lit(name).alias(self.column)
        )

    def _skipped_pairs(
        self, protocols: pl.DataFrame, name: str, answered: pl.DataFrame
    ) -> pl.DataFrame:
        """Number of examples skipped in the plain way or in this one."""
        pairs = (
            protocols.filter(pl.col("demonstrations").is_in([self.plain, name]))
            .group_by(CELL, maintain_order=True)
            .agg(pl.col("skipped").drop_nulls().first())
        )
        return by_task.skipped_prompts(
            pairs.with_columns(demonstrations=pl.lit("pair")), "pair", answered
        )
