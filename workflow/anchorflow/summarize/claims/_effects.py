"""Components of effects: statistics by seed, resampled together, and means over layers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl

from anchorflow.arrays import Array
from anchorflow.summarize.by_task import SeedStatistic, per_seed
from anchorflow.summarize.claims._claim import NotTested, Run, Sampled, unchanged
from anchorflow.summarize.loyalty import by_draw, mean_over_draws
from anchorflow.summarize.statistics import bootstrap, mean_where_defined, weighted_mean

Statistic = Callable[[Array], Array]  # of one seed, from weights [R, examples] to values [R, K]
Setting = Mapping[str, Any]  # column values that select rows

UNCHANGED = "share of predictions unchanged"  # the unit of label loyalty


def mean_of_examples(values: Array) -> SeedStatistic:
    """The statistic "mean of [examples]"."""
    return weighted_mean(values[:, None]), len(values)


def sampled(
    run: Run, seeds: Sequence[SeedStatistic], effect: Callable[[Array], Array] = unchanged
) -> Sampled:
    """Bootstrap over seeds and examples; ``effect`` is applied to the mean over seeds, [..., K]."""
    sizes = [examples for _, examples in seeds]
    statistics = [statistic for statistic, _ in seeds]
    estimate = bootstrap(statistics, sizes, run.replicates, run.random()).map(effect)
    return Sampled(estimate, sum(sizes), len(seeds))


def several_layers(layers: int) -> int:
    """The number of layers, for claims that compare early and late layers.

    Raises
    ------
    NotTested
        If there is only one layer.
    """
    if layers == 1:
        raise NotTested("the model has a single layer")
    return layers


def mean_of_layers(values: Array, layers: slice) -> Array:
    """The mean over some of the layers (the last axis), [..., 1]."""
    return mean_where_defined(values[..., layers], -1)[..., None]


def rows_with(rows: pl.DataFrame, setting: Setting) -> pl.DataFrame:
    """The rows of a setting."""
    return rows.filter(pl.col(name).eq_missing(value) for name, value in setting.items())


def difference_by_seed(
    run: Run, measured: pl.DataFrame, more: Setting, less: Setting, measure: str
) -> list[SeedStatistic]:
    """A measure in one setting minus that in another, by seed, with draws resampled in each.

    Seeds that lack either setting are left out.

    Parameters
    ----------
    measured : DataFrame
        One row per seed, example, draw, and setting.
    """
    seeds = []
    for rows in per_seed(measured):
        chosen = [rows_with(rows, each) for each in (more, less)]
        if any(each.is_empty() for each in chosen):
            continue
        random = run.random("draws", rows["seed"][0])
        values = [by_draw(each, [measure]) for each in chosen]
        means = [mean_over_draws(each, run.replicates, random) for each in values]
        seeds.append((_minus(*means), values[0].shape[1]))
    return seeds


def _minus(first: Statistic, second: Statistic) -> Statistic:
    return lambda weights: first(weights) - second(weights)


def accuracy_over(run: Run, table: str, column: str, more: str, less: str) -> Sampled:
    """Accuracy of one method minus that of another, on the examples that both were run on.

    Raises
    ------
    NotTested
        If there are no such examples.
    """
    seeds = []
    for rows in run.seeds(table):
        right = rows.with_columns(right=(pl.col("prediction") == pl.col("label")).cast(pl.Float64))
        chosen = [right.filter(pl.col(column) == each) for each in (more, less)]
        pairs = chosen[0].join(chosen[1], on="example", suffix="_less").sort("example")
        if not pairs.is_empty():
            seeds.append(mean_of_examples((pairs["right"] - pairs["right_less"]).to_numpy()))
    if not seeds:
        raise NotTested(
            f"no example was run with both {more} and {less}: prompts exceed the context, or the "
            "configuration leaves one out"
        )
    return sampled(run, seeds)
