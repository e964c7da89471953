"""Estimates over seeds and texts with intervals by Student's t, and AUCs for all layers at once.

A seed draws demonstrations and test texts. The variance of an estimate is that between seeds, with
degrees of freedom of the number of seeds minus 1, so that few seeds give wide intervals. Where
seeds share test texts, the covariance due to these, or a bound if they are few, is a second
component, and the squares of the two half-widths are added. Tasks are fixed effects: the variances
of a component are added over tasks, and their degrees of freedom combined as in Satterthwaite
(1946). Where no text differs from any other, the interval is that of a rare difference.
``benchmarks/coverage.py`` measures the coverage of these intervals.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, compress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit
from scipy.stats import rankdata

from anchorflow.arrays import Array, divided

# Of one seed: maps R weightings of its texts, [R, texts], to values, [R, K]; NaN where undefined.
Statistic = Callable[[Array], Array]


def unchanged(values: Array) -> Array:
    return values


class SeedStatistic(NamedTuple):
    """A statistic of one seed, and its texts."""

    statistic: Statistic
    texts: NDArray[np.int64]  # [texts], identities; the same text has the same one in all seeds


@dataclass(frozen=True)
class Stratum:
    """An estimate of one task without each of its seeds, and without each text of a seed.

    ``made`` computes the values from what is stored, so that estimates derived from one another
    share their storage.
    """

    without_seed: Array  # [S, K]; NaN where a seed has no value
    without_text: tuple[Array, ...]  # of each seed [texts, K]; NaN where undefined
    texts: tuple[NDArray[np.int64], ...]  # of each seed, identities
    statistics: tuple[Statistic, ...]  # of each seed
    made: Callable[[Array], Array] = unchanged  # of [..., K]
    defined: Callable[[Array], Array] = unchanged  # as made, but NaN where this task has no value

    def seeds_and_texts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The numbers of seeds with a value, and of distinct texts that have one alone, [K] each.

        The share of a subset depends on the texts of the subset. No text has a correlation alone;
        where none has a value, all texts count.
        """
        names = np.unique(np.concatenate(self.texts))
        seeds = np.zeros(self.made(self.without_seed).shape[1:], np.int64)
        known = np.zeros((len(names), *seeds.shape), bool)
        for texts, statistic in zip(self.texts, self.statistics, strict=True):
            weights = np.concatenate([np.ones((1, len(texts))), np.eye(len(texts))])
            whole, *alone = ~np.isnan(self.defined(statistic(weights)))
            seeds = seeds + whole
            known[np.searchsorted(names, texts)] |= alone
        every = np.where(seeds > 0, len(names), 0)
        return seeds, np.where(known.any(0), known.sum(0), every)

    def of_seeds(self, chosen: NDArray[np.bool_]) -> "Stratum":
        """The same with some seeds alone, [S]."""
        return replace(
            self,
            without_seed=self.without_seed[chosen],
            without_text=tuple(compress(self.without_text, chosen)),
            texts=tuple(compress(self.texts, chosen)),
            statistics=tuple(compress(self.statistics, chosen)),
        )

    def map(self, function: Callable[[Array], Array]) -> "Stratum":
        """Apply a function of [..., K] to all values."""
        return replace(
            self,
            made=lambda stored: function(self.made(stored)),
            defined=lambda stored: function(self.defined(stored)),
        )


class Variance(NamedTuple):
    variance: Array  # [K]
    freedom: Array  # [K]


class Components(NamedTuple):
    """Components of the variance of estimates in one stratum."""

    between_seeds: Variance  # NaN where fewer than two seeds have a value
    shared_texts: Variance
    within_seeds: Variance  # of the estimate if seeds did not differ; a lower bound


def components(values: Array, stratum: Stratum) -> Components:
    """The components of the variance of ``values``, [K].

    Let the value of a text be y = a + b + e, with the effects a of its seed and b of the text and
    the residual e. The variance of the seeds' means divided by the number S of seeds estimates
    var(a) / S + var(e) / N + var(b) / N, the whole variance if no text is shared. Shared texts add
    the mean covariance of two seeds' means, estimated from the texts that both have, or, where
    these are few, bounded; see :class:`Sharing`. For statistics other than means, seeds and texts
    are left out one at a time (jackknife).

    Source: for the sum of the two, Cameron, Gelbach and Miller 2011 (two-way clustering).
    """
    without = stratum.made(stratum.without_seed)
    defined = ~np.isnan(without)
    if defined.all() or not defined.any():
        return _components(values, stratum, without)
    parts = Components(*(Variance(np.zeros(values.shape), np.ones(values.shape)) for _ in range(3)))
    for pattern in np.unique(defined, axis=1).T:  # seeds that have a value; others do not count
        columns = (defined == pattern[:, None]).all(0)
        found = _components(values, stratum.of_seeds(pattern), without[pattern])
        for part, of_pattern in zip(parts, found, strict=True):
            for whole, of_columns in zip(part, of_pattern, strict=True):
                whole[columns] = of_columns[columns]
    return parts


def _components(values: Array, stratum: Stratum, without: Array) -> Components:
    """As :func:`components`, of seeds that all have values ``without`` each of them, [S, K]."""
    count = len(stratum.texts)
    squares = ((without - mean_where_defined(without, 0)) ** 2).sum(0)
    between = squares * (count - 1) / count if count > 1 else np.full(values.shape, np.nan)

    names, times = np.unique(np.concatenate([*stratum.texts, []]), return_counts=True)
    repeated = names[times > 1]
    of_texts, of_repeated_texts = np.zeros(values.shape), np.zeros(values.shape)
    of_repeated = np.zeros((len(repeated), *values.shape))
    for texts, stored in zip(stratum.texts, stratum.without_text, strict=True):
        shrink = 1 - 1 / len(texts)
        influence = shrink * np.nan_to_num(values - stratum.made(stored))  # [texts, K]
        of_texts += (influence**2).sum(0) / max(shrink, 0.5)  # 0 / 0.5 for a single text
        shared = np.isin(texts, repeated)
        of_repeated_texts += (influence[shared] ** 2).sum(0)
        of_repeated[np.searchsorted(repeated, texts[shared])] += influence[shared]
    pairs = (of_repeated**2).sum(0) - of_repeated_texts  # of a text's influences in two seeds
    sharing = Sharing.of(stratum.texts)
    covariance = (
        of_texts * sharing.most if sharing.few else np.maximum(pairs * sharing.recovered, 0)
    )
    seen = count / max(count - 1, 1)  # the variance between seeds lacks the covariance
    total = sum(len(texts) for texts in stratum.texts)
    return Components(
        _same_freedom(between, count - 1),
        _same_freedom(covariance * seen, sharing.freedom),
        _same_freedom(of_texts + covariance, total - count),
    )


def _same_freedom(variance: Array, freedom: int) -> Variance:
    return Variance(variance, np.full(variance.shape, max(freedom, 1), float))


class Sharing(NamedTuple):
    """What is known of the covariance of the seeds' means from the texts that seeds share.

    R shared texts estimate it with R - 1 degrees of freedom, which makes intervals several times as
    wide if R is 2 or 3. It is at most the variance within seeds times
    2 Σ_{a<b} c_ab / (n_a n_b) / Σ_a 1 / n_a, for seeds of n_a texts of which pairs share c_ab: all
    variance between texts is then common to the seeds. The bound counts instead where it gives the
    narrower interval even if only half of that variance is common, at a confidence of .95. That
    depends on the texts alone, not on their values. Its degrees of freedom are those of the
    distinct texts within seeds.
    """

    recovered: float  # by how much centering on seeds' means understates the covariance
    most: float  # the bound, as a ratio to the variance within seeds
    few: bool  # whether the bound counts
    freedom: int

    @classmethod
    def of(cls, texts: Sequence[NDArray[np.int64]]) -> "Sharing":
        """From the identities of each seed's texts."""
        wanted = found = 0.0
        for a, b in combinations(texts, 2):
            common, size = len(np.intersect1d(a, b)), len(a) * len(b)
            wanted += common / size
            found += common / size * (1 - 1 / len(a) - 1 / len(b) + common / size)
        # A single text of a seed has no variance within it.
        within = sum(1 / len(of_seed) for of_seed in texts if len(of_seed) > 1)
        _, times = np.unique(np.concatenate([*texts, []]), return_counts=True)
        estimated, bounded = max((times > 1).sum() - 1, 1), max(len(times) - len(texts), 1)
        few = bool(stdtrit(estimated, 0.025) ** 2 > 2 * stdtrit(bounded, 0.025) ** 2)
        return cls(
            wanted / found if found > 0 else 0.0,
            2 * wanted / within if within > 0 else 0.0,
            few,
            bounded if few else estimated,
        )


@dataclass(frozen=True)
class Estimate:
    """Values, and the values without each seed and without each text, by task."""

    values: Array  # [K]
    strata: tuple[Stratum, ...]

    def map(self, function: Callable[[Array], Array]) -> "Estimate":
        """Apply a function of [..., K], to be differentiated by leaving seeds and texts out."""
        return Estimate(
            function(self.values), tuple(stratum.map(function) for stratum in self.strata)
        )

    def interval(self, confidence: float, change: float | Array = 1) -> tuple[Array, Array]:
        """Lower and upper ends, each [K]; NaN where a task has a value in fewer than two seeds.

        With a single seed, the interval is over its texts, as if demonstrations were fixed.
        ``change``, a number or [K], is by how much a text that differs would change its value, for
        values that are the same in all texts and seeds: 1 for shares and their differences, 0 where
        that is unknown, and their ends are NaN.
        """
        half = self._half_width(np.full(self.values.shape, 1 - confidence), change)
        return self.values - half, self.values + half

    def p_value(self) -> Array:
        """Two-sided p values of "it is 0", [K]: the error rate at which the interval reaches 0.

        Widths of two components have no closed form in the error rate, so it is found by bisection.
        """
        low, high = np.zeros(self.values.shape), np.ones(self.values.shape)
        distance = np.abs(self.values)
        for _ in range(50):  # to within 2⁻⁵⁰
            middle = (low + high) / 2
            reaches = self._half_width(middle) >= distance
            low, high = np.where(reaches, middle, low), np.where(reaches, high, middle)
        return np.where(np.isnan(self._half_width(high)), np.nan, high)

    @property
    def one_seed(self) -> bool:
        """Whether every task has a single draw of demonstrations, so that only texts vary."""
        return all(len(stratum.texts) < 2 for stratum in self.strata)

    @property
    def few_texts(self) -> bool:
        """Whether a task has too few texts to tell what they vary by from what its seeds do.

        Less than two texts per seed, or less distinct ones than seeds.
        """
        return any(
            sum(map(len, stratum.texts)) < 2 * len(stratum.texts)
            or len(np.unique(np.concatenate(stratum.texts))) < len(stratum.texts)
            for stratum in self.strata
        )

    @cached_property
    def _tasks_seeds_and_texts(self) -> tuple[NDArray[np.int64], ...]:
        """The numbers of tasks, seeds, and texts on which each value depends, [K] each."""
        of_tasks = [stratum.seeds_and_texts() for stratum in self.strata]
        seeds, texts = (np.stack(counts) for counts in zip(*of_tasks, strict=True))
        return (seeds > 0).sum(0), seeds.sum(0), texts.sum(0)

    @cached_property
    def _components(self) -> Components:
        """The components of the variance, added up over tasks."""
        parts = [components(self.values, stratum) for stratum in self.strata]
        if not parts:
            unknown = Variance(np.full(self.values.shape, np.nan), np.ones(self.values.shape))
            return Components(unknown, unknown, unknown)
        return Components(*(_satterthwaite(variances) for variances in zip(*parts, strict=True)))

    def _half_width(self, error: Array, change: float | Array = 1) -> Array:
        """Half of the width of the interval with error rates [K], each variance by its own t.

        The variance between few seeds can be 0 by chance. The interval is therefore at least as
        wide as one of twice the error rate if seeds did not differ. With the same error rate, the
        wider of the two would cover too often where seeds do not differ.
        """
        if self.one_seed:
            width = _t_width([self._components.within_seeds], error)
        else:
            least = _t_width([self._components.within_seeds], np.minimum(2 * error, 1))
            width = np.maximum(_t_width(self._components[:2], error), least)  # NaN if either is
        same = width <= 1e-9 * np.abs(self.values) + 1e-12  # equal values differ by rounding
        if not same.any():
            return width
        # Without a unit, nothing is known of how far a value that never varies could be off.
        unit = np.where(np.asarray(change) > 0, change, np.nan)
        return np.where(same, unit * self._width_without_differences(error), width)

    def _width_without_differences(self, error: Array) -> Array:
        """Half of the width, [K], where no text differs, but may by 1.

        If one of the N texts on which a value depends differed by 1, as in the next experiment one
        may, t standard errors would be about t / N. A share of texts above -ln(error) / N would
        hardly show in none of them (the rule of three). The greater of the two is divided by N + 2,
        as in Agresti and Coull (1998).
        """
        tasks, seeds, texts = self._tasks_seeds_and_texts
        freedom = np.maximum((texts if self.one_seed else seeds) - tasks, 1)
        with np.errstate(divide="ignore"):
            width: Array = np.maximum(-stdtrit(freedom, error / 2), -np.log(error))
        return width / (texts + 2)


def _t_width(variances: Sequence[Variance], error: Array) -> Array:
    """Half of the width, [K], from the sum of several variances."""
    squares = [each.variance * stdtrit(each.freedom, error / 2) ** 2 for each in variances]
    width: Array = np.sqrt(np.sum(squares, 0))
    return width


def _satterthwaite(parts: Sequence[Variance]) -> Variance:
    """The sum of independent variances, and its degrees of freedom."""
    variance = np.sum([part.variance for part in parts], 0)
    weight = np.sum([part.variance**2 / part.freedom for part in parts], 0)
    freedom = np.divide(variance**2, weight, out=np.ones(variance.shape), where=weight > 0)
    return Variance(variance, freedom)


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
        if len(np.unique(texts)) < len(texts):
            raise ValueError("a seed has the same text twice")
        alone = np.full((1, len(of_seed)), np.nan)
        without = of(1 - np.eye(len(texts))) if len(texts) > 1 else alone
        lacking.append(mean + share * (without - of_seed))
    stratum = Stratum(
        np.where(defined, others, np.nan),
        tuple(lacking),
        tuple(np.asarray(texts, np.int64) for _, texts in seeds),
        tuple(of for of, _ in seeds),
    )
    return Estimate(mean, (stratum,))


def average(estimates: Sequence[Estimate]) -> Estimate:
    """The unweighted mean of the estimates of tasks that have a value."""
    values = np.stack([estimate.values for estimate in estimates])
    mean = mean_where_defined(values, 0)
    defined = ~np.isnan(values)
    share = 1 / np.maximum(defined.sum(0), 1)
    strata = []
    for estimate, known in zip(estimates, defined, strict=True):

        def with_one_changed(
            lacking: Array, original: Array = estimate.values, known: NDArray[np.bool_] = known
        ) -> Array:
            # A task without a value contributes nothing to the variance.
            changed: Array = np.where(known, mean + share * (lacking - original), mean)
            return changed

        def where_known(values: Array, known: NDArray[np.bool_] = known) -> Array:
            return np.where(known, values, np.nan)

        for stratum in estimate.strata:
            averaged = stratum.map(with_one_changed)
            strata.append(replace(averaged, defined=stratum.map(where_known).defined))
    return Estimate(mean, tuple(strata))


def mean_where_defined(values: Array, axis: int) -> Array:
    """Mean over an axis, ignoring NaN; NaN where all values are NaN."""
    defined = ~np.isnan(values)
    count = defined.sum(axis)
    total = np.where(defined, values, 0).sum(axis)
    return divided(total, count, count > 0)


def weighted_mean(values: Array) -> Callable[[Array], Array]:
    """The statistic "mean of [examples, K]" for :func:`estimate`."""
    return lambda weights: (weights @ values) / weights.sum(1, keepdims=True)


def weighted_mean_where_defined(values: Array) -> Callable[[Array], Array]:
    """As :func:`weighted_mean`, ignoring NaN; NaN where no example with a value has weight."""
    defined = ~np.isnan(values)
    return weighted_ratio(np.where(defined, values, 0), defined)


def weighted_ratio(parts: Array, wholes: Array) -> Callable[[Array], Array]:
    """The statistic Σ w parts / Σ w wholes, of [examples, K] each; NaN where no whole has weight.

    ``wholes`` are not negative.
    """

    def statistic(weights: Array) -> Array:
        part, whole = weights @ parts, weights @ wholes
        return divided(part, whole, whole > 0)

    return statistic


def one_vs_one_auc(scores: Array, labels: NDArray[np.int64]) -> Callable[[Array], Array]:
    """The statistic "one-vs-one macro AUC" of several score tables, for :func:`estimate`.

    For each pair of classes that occur, the AUC of each class's score on the examples of the two;
    then the mean over both directions and all pairs (Hand and Till 2001; scikit-learn's
    ``roc_auc_score(multi_class="ovo")``, here with example weights and for all layers at once).
    ``scores``, [examples, L, C], are those of each class, one table per layer. The statistic maps
    weights [R, examples] to AUC [R, L]; NaN where fewer than two classes have weight.
    """

    def statistic(weights: Array) -> Array:
        aucs = []
        for a, b in combinations(np.unique(labels), 2):
            weight_a, weight_b = weights[:, labels == a], weights[:, labels == b]
            of_layers = []
            for of_layer in scores.swapaxes(0, 1):  # one at a time, since [a, b] pairs may be many
                won = _wins(of_layer[labels == a, a], of_layer[labels == b, a])
                won += _wins(-of_layer[labels == a, b], -of_layer[labels == b, b])
                of_layers.append(_share_won(won / 2, weight_a, weight_b))
            aucs.append(np.stack(of_layers, 1))
        if not aucs:
            return np.full((len(weights), scores.shape[1]), np.nan)
        return mean_where_defined(np.stack(aucs), 0)

    return statistic


def pairwise_auc(scores: Array, labels: NDArray[np.int64]) -> Callable[[Array], Array]:
    """The statistic "AUC of each pair of classes", for :func:`estimate`.

    For classes a < b, how well score a minus score b separates examples of a from those of b.
    ``scores``, [examples, C], are for example log probabilities, so that differences are log ratios
    of probabilities. The statistic maps weights [R, examples] to [R, C (C - 1) / 2], pairs in
    lexical order; NaN where a class has no weight.
    """

    def statistic(weights: Array) -> Array:
        aucs = []
        for a, b in combinations(range(scores.shape[1]), 2):
            difference = scores[:, a] - scores[:, b]
            won = _wins(difference[labels == a], difference[labels == b])
            aucs.append(_share_won(won, weights[:, labels == a], weights[:, labels == b]))
        return np.stack(aucs, 1)

    return statistic


def _share_won(won: Array, weight_a: Array, weight_b: Array) -> Array:
    """The mean of ``won`` [a, b] over pairs by weight, [R]; NaN where no pair has weight."""
    pairs = weight_a.sum(1) * weight_b.sum(1)
    return divided(((weight_a @ won) * weight_b).sum(1), pairs, pairs > 0)


def _wins(of_a: Array, of_b: Array) -> Array:
    """[a, b]: 1 where the example of a has the larger score, 0.5 where they tie."""
    difference = of_a[:, None] - of_b[None]
    wins: Array = (difference > 0) + 0.5 * (difference == 0)
    return wins


def rank_correlations(first: Array, second: Array, blocks: int = 1) -> Array:
    """Spearman's ρ over the last axis of two arrays [..., n]; NaN where one of them is constant.

    The last axis consists of ``blocks`` blocks of equal length. Mean ranks of blocks are
    subtracted, so that only differences within blocks count.
    """
    centered = []
    for values in (first, second):
        ranks = rankdata(values, axis=-1)
        of_blocks = ranks.reshape(*ranks.shape[:-1], blocks, -1)
        centered.append((of_blocks - of_blocks.mean(-1, keepdims=True)).reshape(ranks.shape))
    products = (centered[0] * centered[1]).sum(-1)
    norms = np.sqrt((centered[0] ** 2).sum(-1) * (centered[1] ** 2).sum(-1))
    return divided(products, norms, norms > 0)


def correlations(weights: Array, similarity: Array) -> Array:
    """Pearson's correlation over the last axis, broadcast over the others.

    NaN where an input is constant, and for fewer than three values: two always give ±1.
    """
    if similarity.shape[-1] < 3:
        return np.full(np.broadcast_shapes(weights.shape, similarity.shape)[:-1], np.nan)
    a = weights - weights.mean(-1, keepdims=True)
    b = similarity - similarity.mean(-1, keepdims=True)
    scale = np.sqrt((a**2).sum(-1) * (b**2).sum(-1))
    # Rounding leaves a constant row deviations from its mean, so its range is checked too.
    varies = (np.ptp(weights, -1) > 0) & (np.ptp(similarity, -1) > 0) & (scale > 0)
    return divided((a * b).sum(-1), scale, varies)
