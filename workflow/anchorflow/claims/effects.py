"""Components of effects: statistics by seed, differences on the same texts, means over layers."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from anchorflow.arrays import Array
from anchorflow.claims.claim import Run, Sampled
from anchorflow.statistics.by_task import per_seed, texts_of
from anchorflow.statistics.change import share_of_effect
from anchorflow.statistics.estimates import (
    SeedStatistic,
    mean_where_defined,
    unchanged,
    weighted_mean_where_defined,
)
from anchorflow.statistics.settings import mean_of_draws

Setting = Mapping[str, Any]  # column values that select rows

NO_EFFECT = "demonstrations change no label probability"  # so that there is nothing to retain
EFFECT_RETAINED = "share of the demonstrations' effect"  # the unit of what is retained


def mean_of_examples(rows: pl.DataFrame, values: Array) -> SeedStatistic:
    """The statistic "mean of [examples]", examples in the order of :func:`texts_of`.

    Examples without a value do not count, so that differences cover examples with both values.
    """
    texts, defined = texts_of(rows), ~np.isnan(values)
    if defined.any():
        texts, values = texts[defined], values[defined]
    return SeedStatistic(weighted_mean_where_defined(values[:, None]), texts)


def share(parts: Array) -> Array:
    """The share of the demonstrations' effect in its parts, [..., 2] to [..., 1]."""
    return share_of_effect(parts[..., :1], parts[..., 1:])


def minus(first: Sampled, second: Sampled, all_texts: bool = False) -> Sampled:
    """The difference of two effects, in the seeds in which both have a value.

    Both are of the texts that they have in common; with ``all_texts``, each is of all its texts, so
    that one of them may have been measured on fewer. Texts that they share are left out together.
    """
    seeds = {}
    combined = first.combined is not unchanged or second.combined is not unchanged
    for seed, of_first in first.by_seed.items():
        if seed in second.by_seed:
            of_second = second.by_seed[seed]
            if len(np.intersect1d(of_first.texts, of_second.texts)):
                seeds[seed] = _both(of_first, of_second, all_texts, combined)
    difference = Sampled.of_any(seeds, "what is compared was measured on different texts")
    if not combined:
        return difference
    statistic, texts = next(iter(first.by_seed.values()))
    own = statistic(np.ones((1, len(texts)))).shape[-1]  # means of the first effect

    def of_means(means: Array) -> Array:
        return first.combined(means[..., :own]) - second.combined(means[..., own:])

    return Sampled(seeds, of_means)


def _both(
    first: SeedStatistic, second: SeedStatistic, all_texts: bool, apart: bool
) -> SeedStatistic:
    """One statistic minus the other, or both apart, of common texts, or each of all its texts."""
    texts = (np.union1d if all_texts else np.intersect1d)(first.texts, second.texts)

    def of(one: SeedStatistic, weights: Array) -> Array:
        known = np.isin(texts, one.texts)
        at_texts = np.zeros((len(weights), len(one.texts)))
        at_texts[:, np.searchsorted(one.texts, texts[known])] = weights[:, known]
        return one.statistic(at_texts)

    if apart:
        return SeedStatistic(
            lambda weights: np.concatenate([of(first, weights), of(second, weights)], -1), texts
        )
    return SeedStatistic(lambda weights: of(first, weights) - of(second, weights), texts)


def mean_of_layers(values: Array, layers: slice) -> Array:
    """The mean over some of the layers (the last axis), [..., 1]."""
    return mean_where_defined(values[..., layers], -1)[..., None]


def rows_with(rows: pl.DataFrame, setting: Setting) -> pl.DataFrame:
    """The rows of a setting."""
    return rows.filter(pl.col(name).eq_missing(value) for name, value in setting.items())


def difference_by_seed(
    measured: pl.DataFrame, more: Sequence[Setting], less: Sequence[Setting], measure: str
) -> Sampled:
    """A measure in some settings minus that in others, each the mean over settings and draws.

    Seeds that lack a setting, or have no example with all of them, are left out. With a column of
    the measure's name that ends in ``_whole``, which no setting changes, the difference is a share
    of its mean over seeds.
    """
    seeds, whole = {}, f"{measure}_whole"
    names = [measure, whole] if whole in measured.columns else [measure]
    for rows in per_seed(measured):
        sides = [[rows_with(rows, each) for each in side] for side in (more, less)]
        if any(each.is_empty() for side in sides for each in side):
            continue
        means = [_mean_of_settings(side, names) for side in sides]
        pairs = means[0].join(means[1], on="example", suffix="_less").sort("example")
        if pairs.is_empty():
            continue
        values = (pairs[measure] - pairs[f"{measure}_less"]).to_numpy()
        seeds[int(rows["seed"][0])] = (
            mean_of_examples(pairs, values)
            if whole not in names
            else SeedStatistic(
                weighted_mean_where_defined(np.stack([values, pairs[whole].to_numpy()], 1)),
                texts_of(pairs),
            )
        )
    found = Sampled.of_any(seeds, "no test text was run with both of what is compared")
    return Sampled(seeds, share) if whole in names else found


def _mean_of_settings(settings: Sequence[pl.DataFrame], names: Sequence[str]) -> pl.DataFrame:
    """Columns example and ``names``, of the examples that all settings have."""
    means = pl.concat([mean_of_draws(rows, names) for rows in settings])
    together = means.group_by("example").agg(pl.col(names).mean(), pl.len().alias("settings"))
    return together.filter(pl.col("settings") == len(settings)).drop("settings")


def accuracy_gained(more: pl.DataFrame, less: pl.DataFrame) -> SeedStatistic | None:
    """Accuracy of some predictions of a seed minus that of others, on the examples that both have.

    None if they have none in common.
    """
    right = (pl.col("prediction") == pl.col("label")).cast(pl.Float64)
    first, second = (predictions.with_columns(right=right) for predictions in (more, less))
    pairs = first.join(second, on="example", suffix="_less").sort("example")
    if pairs.is_empty():
        return None
    return mean_of_examples(pairs, (pairs["right"] - pairs["right_less"]).to_numpy())


def accuracy_over(run: Run, table: str, more: str, less: str) -> Sampled:
    """Accuracy of one way of answering minus that of another, on the texts that both answered.

    The ``table`` is reweighting or retrieval.
    """
    way = "method" if table == "reweighting" else "choice"
    seeds = {}
    for seed, rows in run.by_seed(table).items():
        first, second = (rows.filter(pl.col(way) == name) for name in (more, less))
        if gained := accuracy_gained(first, second):
            seeds[seed] = gained
    lacking = (
        f"no test text was run with both {more} and {less}: prompts exceed the context, or the "
        "configuration leaves one out"
    )
    remedy = "reweighting: {baselines: [bias_removed]}" if more == "bias_removed" else ""
    if table == "retrieval":
        remedy = f"retrieval: {{choices: [{less if more == 'random' else more}]}}"
    return Sampled.of_any(seeds, lacking, remedy)
