"""Estimates over seeds and texts with intervals by Student's t, and AUCs for all layers at once.

A seed draws demonstrations and test texts. Few seeds are treated as few: the variance of an
estimate is that between seeds, whose degrees of freedom are the seeds less one. Where seeds share
test texts, the covariance that these cause is a second component. Components are added up, and
degrees of freedom combined as in Satterthwaite (1946); tasks are fixed effects.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from anchorflow.arrays import Array

# Of one seed: maps weights of its texts, [R, texts], to values, [R, K]; NaN where undefined.
Statistic = Callable[[Array], Array]


Variance = tuple[Array, Array]  # with its degrees of freedom, each [K]


class SeedStatistic(NamedTuple):
    """A statistic of one seed, and the texts that it is of."""

    statistic: Statistic
    texts: NDArray[np.int64]  # [texts], identities; the same text has the same one in all seeds


@dataclass(frozen=True)
class Stratum:
    """What an estimate would be without each seed, and without each text of a seed, of one task."""

    without_seed: Array  # [S, K]; NaN where a seed has no value
    without_text: Array  # [N, K]; NaN where it makes no difference
    seeds: NDArray[np.int64]  # [N], of which seed each text is left out
    texts: NDArray[np.int64]  # [N], identities

    def map(self, function: Callable[[Array], Array]) -> "Stratum":
        """Apply a function of [..., K] to all values."""
        return Stratum(
            function(self.without_seed), function(self.without_text), self.seeds, self.texts
        )


class Components(NamedTuple):
    """Components of the variance of estimates in one stratum, each [K] with degrees of freedom."""

    between_seeds: Array
    seeds_freedom: Array
    shared_texts: Array
    texts_freedom: float
    within_seeds: Array  # of the mean over texts if seeds did not differ; a lower bound
    within_freedom: float


def components(values: Array, stratum: Stratum) -> Components:
    """The components of the variance of ``values``, [K].

    With y the value of a text, a the effect of its seed, b that of the text, and e what remains,
    y = a + b + e. The variance of the seeds' means, divided by their number S, estimates
    var(a) / S + var(e) / N + var(b) / N, which is all if no text is shared. What shared texts add
    is the mean covariance of two seeds' means, estimated from the texts that both have. For other
    statistics than means, seeds and texts are left out one at a time (the jackknife).

    Source: for the sum of the two, Cameron, Gelbach and Miller 2011 (two-way clustering).
    """
    without = stratum.without_seed
    defined = ~np.isnan(without)
    seeds = defined.sum(0)
    several = seeds > 1
    center = mean_where_defined(without, 0)
    squares = np.where(defined, (without - center) ** 2, 0).sum(0)
    scale = (seeds - 1) / np.maximum(seeds, 1)
    between = np.where(several, squares * scale, np.nan)

    count = len(without)
    sizes = np.bincount(stratum.seeds, minlength=count)
    shrink = (1 - 1 / sizes)[stratum.seeds]
    influence = np.nan_to_num(values - stratum.without_text) * shrink[:, None]  # [N, K]
    own = (influence**2 / np.maximum(shrink, 0.5)[:, None]).sum(0)
    names, text = np.unique(stratum.texts, return_inverse=True)
    of_text = np.zeros((len(names), influence.shape[1]))
    np.add.at(of_text, text, influence)
    pairs = ((of_text**2).sum(0) - (influence**2).sum(0)) * _recovered(stratum, sizes)
    shared = np.maximum(pairs, 0) * (count / (count - 1) if count > 1 else 0)
    repeated = int((np.bincount(text) > 1).sum())
    return Components(
        between,
        np.maximum(seeds - 1, 0).astype(float),
        shared,
        max(repeated - 1, 1),
        own + np.maximum(pairs, 0),
        max(len(stratum.seeds) - count, 1),
    )


def _recovered(stratum: Stratum, sizes: NDArray[np.int64]) -> float:
    """By how much centering on seeds' means understates the covariance due to shared texts."""
    held = [set(stratum.texts[stratum.seeds == seed].tolist()) for seed in range(len(sizes))]
    wanted = found = 0.0
    for a, b in combinations(range(len(sizes)), 2):
        common, size = len(held[a] & held[b]), sizes[a] * sizes[b]
        wanted += common / size
        found += common / size * (1 - 1 / sizes[a] - 1 / sizes[b] + common / size)
    return wanted / found if found > 0 else 0.0


@dataclass(frozen=True)
class Estimate:
    """Values, and what they would be without each seed and text, by task."""

    values: Array  # [K]
    strata: tuple[Stratum, ...]

    def map(self, function: Callable[[Array], Array]) -> "Estimate":
        """Apply a function of [..., K], to be differentiated by leaving seeds and texts out."""
        return Estimate(function(self.values), tuple(each.map(function) for each in self.strata))

    def interval(self, confidence: float) -> tuple[Array, Array]:
        """Lower and upper ends, each [K]; NaN where a task has a value in fewer than two seeds.

        With a single seed, the interval is over its texts, as if demonstrations were fixed.
        """
        half = _half_width(self._variances(), np.full(self.values.shape, 1 - confidence))
        return self.values - half, self.values + half

    def p_value(self) -> Array:
        """Two-sided p values of "it is 0", [K]: the error rate at which the interval reaches 0."""
        low, high = np.zeros(self.values.shape), np.ones(self.values.shape)
        distance, variances = np.abs(self.values), self._variances()
        for _ in range(50):
            middle = (low + high) / 2
            reaches = _half_width(variances, middle) >= distance
            low, high = np.where(reaches, middle, low), np.where(reaches, high, middle)
        return np.where(np.isnan(_half_width(variances, high)), np.nan, high)

    @property
    def one_seed(self) -> bool:
        """Whether all that is known is how texts vary, with a single draw of demonstrations."""
        return all(len(stratum.without_seed) < 2 for stratum in self.strata)

    def _variances(self) -> list[list[Variance]]:
        """Variances to be added up, in two ways: as seeds differ, and as if they did not.

        The second is a lower bound, since the variance between few seeds can be 0 by chance.
        """
        parts = [components(self.values, stratum) for stratum in self.strata]
        if not parts:
            unknown = np.full(self.values.shape, np.nan)
            return [[(unknown, np.ones(unknown.shape))]]
        least = [_satterthwaite([(each.within_seeds, each.within_freedom) for each in parts])]
        if self.one_seed:
            return [least]
        seeds = _satterthwaite([(each.between_seeds, each.seeds_freedom) for each in parts])
        texts = _satterthwaite([(each.shared_texts, each.texts_freedom) for each in parts])
        return [[seeds, texts], least]


def _half_width(variances: Sequence[Sequence[Variance]], error: Array) -> Array:
    """Half of the width of the interval with error rates [K], each variance by its own t."""
    halves = [
        np.sqrt(sum(variance * stats.t.isf(error / 2, freedom) ** 2 for variance, freedom in way))
        for way in variances
    ]
    widest: Array = np.max(halves, 0)  # NaN if either is
    return widest


def _satterthwaite(parts: Sequence[tuple[Array, Array | float]]) -> tuple[Array, Array]:
    """The sum of independent variances, and its degrees of freedom."""
    variance = np.sum([each for each, _ in parts], 0)
    weight = np.sum([each**2 / np.maximum(freedom, 1) for each, freedom in parts], 0)
    freedom = np.divide(variance**2, weight, out=np.ones(variance.shape), where=weight > 0)
    return variance, freedom


def estimate(seeds: Sequence[SeedStatistic]) -> Estimate:
    """A statistic averaged over the seeds of one task for which it is defined."""
    values = np.stack([of(np.ones((1, len(texts))))[0] for of, texts in seeds])  # [S, K]
    mean = mean_where_defined(values, 0)
    defined = ~np.isnan(values)
    share = 1 / np.maximum(defined.sum(0), 1)
    others = np.stack(
        [mean_where_defined(np.delete(values, seed, 0), 0) for seed in range(len(seeds))]
    )
    lacking = []
    for of_seed, (of, texts) in zip(values, seeds, strict=True):
        left_out = 1 - np.eye(len(texts))
        without = of(left_out) if len(texts) > 1 else np.full((1, len(of_seed)), np.nan)
        lacking.append(mean + share * (without - of_seed))
    stratum = Stratum(
        np.where(defined, others, np.nan),
        np.concatenate(lacking),
        np.repeat(np.arange(len(seeds)), [len(texts) for _, texts in seeds]),
        np.concatenate([np.asarray(texts, np.int64) for _, texts in seeds]),
    )
    return Estimate(mean, (stratum,))


def average(estimates: Sequence[Estimate]) -> Estimate:
    """The unweighted mean of the estimates of tasks, where they have a value."""
    values = np.stack([each.values for each in estimates])
    mean = mean_where_defined(values, 0)
    defined = ~np.isnan(values)
    share = 1 / np.maximum(defined.sum(0), 1)
    strata = []
    for each, known in zip(estimates, defined, strict=True):
        for stratum in each.strata:
            # Without a value, nothing to leave out: no contribution to the variance.
            shifted = stratum.map(
                lambda lacking, own=each.values: mean + share * (lacking - own)  # type: ignore[misc]
            )
            constant = np.broadcast_to(mean, stratum.without_seed.shape)
            strata.append(
                Stratum(
                    np.where(known, shifted.without_seed, constant),
                    np.where(known, shifted.without_text, np.nan),
                    stratum.seeds,
                    stratum.texts,
                )
            )
    return Estimate(mean, tuple(strata))


def mean_where_defined(values: Array, axis: int) -> Array:
    """Mean over an axis, ignoring NaN; NaN where all values are NaN."""
    defined = ~np.isnan(values)
    count = defined.sum(axis)
    total = np.where(defined, values, 0).sum(axis)
    mean: Array = np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
    return mean


def weighted_mean(values: Array) -> Callable[[Array], Array]:
    """The statistic "mean of [examples, K]" for :func:`estimate`."""
    return lambda weights: (weights @ values) / weights.sum(1, keepdims=True)


def weighted_mean_where_defined(values: Array) -> Callable[[Array], Array]:
    """As :func:`weighted_mean`, ignoring NaN; NaN where no example with a value has weight."""
    defined = ~np.isnan(values)

    def statistic(weights: Array) -> Array:
        count = weights @ defined
        total = weights @ np.where(defined, values, 0)
        mean: Array = np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
        return mean

    return statistic


def one_vs_one_auc(scores: Array, labels: NDArray[np.int64]) -> Callable[[Array], Array]:
    """The statistic "one-vs-one macro AUC" of several score tables, for :func:`estimate`.

    For each pair of classes that occur, the AUC of each class's score on the examples of the two;
    then the mean over both directions and all pairs (Hand and Till 2001; scikit-learn's
    ``roc_auc_score(multi_class="ovo")``, here with example weights and for all layers at once).

    Parameters
    ----------
    scores : [examples, L, C]
        Score of each class, one table per layer.
    labels : [examples], int
        The class to be predicted from the scores.

    Returns
    -------
    function
        Maps weights [R, examples] to AUC [R, L]; NaN where fewer than two classes have weight.
    """

    def statistic(weights: Array) -> Array:
        aucs = []
        for a, b in combinations(np.unique(labels), 2):
            in_a, in_b = labels == a, labels == b
            weight_a, weight_b = weights[:, in_a], weights[:, in_b]
            pairs = weight_a.sum(1) * weight_b.sum(1)
            won = _wins(scores[in_a, :, a], scores[in_b, :, a])
            won += _wins(-scores[in_a, :, b], -scores[in_b, :, b])
            first = (weight_a @ won.reshape(won.shape[0], -1)).reshape(-1, *won.shape[1:])
            total = np.einsum("rbl,rb->rl", first, weight_b)
            valid = pairs > 0
            auc = np.full(total.shape, np.nan)
            auc[valid] = total[valid] / (2 * pairs[valid, None])
            aucs.append(auc)
        if not aucs:
            return np.full((len(weights), scores.shape[1]), np.nan)
        return mean_where_defined(np.stack(aucs), 0)

    return statistic


def pairwise_auc(scores: Array, labels: NDArray[np.int64]) -> Callable[[Array], Array]:
    """The statistic "AUC of each pair of classes", for :func:`estimate`.

    For classes a < b, how well score a minus score b separates examples of a from those of b.

    Parameters
    ----------
    scores : [examples, C]
        For example log probabilities, so that differences are log ratios of probabilities.
    labels : [examples], int

    Returns
    -------
    function
        Maps weights [R, examples] to [R, C (C - 1) / 2], pairs in lexical order; NaN where a class
        has no weight.
    """

    def statistic(weights: Array) -> Array:
        aucs = []
        for a, b in combinations(range(scores.shape[1]), 2):
            difference = scores[:, [a]] - scores[:, [b]]
            won = _wins(difference[labels == a], difference[labels == b])[:, :, 0]
            weight_a, weight_b = weights[:, labels == a], weights[:, labels == b]
            pairs = weight_a.sum(1) * weight_b.sum(1)
            total = ((weight_a @ won) * weight_b).sum(1)
            aucs.append(np.divide(total, pairs, out=np.full(len(pairs), np.nan), where=pairs > 0))
        return np.stack(aucs, 1)

    return statistic


def _wins(of_a: Array, of_b: Array) -> Array:
    """[a, b, L]: 1 where the example of a has the larger score, 0.5 where they tie."""
    difference = of_a[:, None] - of_b[None]
    wins: Array = (difference > 0) + 0.5 * (difference == 0)
    return wins
