"""Bootstrap over seeds and examples, and AUCs, which libraries do not vectorize."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from anchorflow.arrays import Array


@dataclass(frozen=True)
class Estimate:
    """Values with their bootstrap replicates."""

    values: Array  # [K]
    replicates: Array  # [R, K]

    def interval(self, confidence: float) -> tuple[Array, Array]:
        """Percentile interval: lower and upper ends, each [K]; NaN where no replicate is."""
        tail = (1 - confidence) / 2
        ends = np.full((2, self.values.shape[-1]), np.nan)
        defined = ~np.isnan(self.replicates).all(0)
        ends[:, defined] = np.nanquantile(self.replicates[:, defined], [tail, 1 - tail], axis=0)
        return ends[0], ends[1]

    def map(self, function: Callable[[Array], Array]) -> "Estimate":
        """Apply a function of [..., K] to the values and to every replicate."""
        return Estimate(function(self.values), function(self.replicates))


def bootstrap(
    statistics: Sequence[Callable[[Array], Array]],
    sizes: Sequence[int],
    replicates: int,
    random: np.random.Generator,
) -> Estimate:
    """A statistic averaged over seeds, with a two-level bootstrap.

    Each replicate draws as many seeds as there are, with replacement, and for each of them as
    many examples as it has, with replacement.

    Parameters
    ----------
    statistics : sequence of functions, one per seed
        Each maps weights of its seed's examples, [R, examples], to values, [R, K]; NaN where
        undefined.
    sizes : sequence of int
        Number of examples of each seed.

    Returns
    -------
    Estimate
        Means over the seeds for which the value is defined.
    """
    values = mean_where_defined(
        np.stack([f(np.ones((1, n)))[0] for f, n in zip(statistics, sizes, strict=True)]), 0
    )
    resampled = np.stack(
        [
            f(random.multinomial(n, np.full(n, 1 / n), replicates).astype(float))
            for f, n in zip(statistics, sizes, strict=True)
        ]
    )  # [S, R, K]
    seeds = len(sizes)
    slots = [
        resampled[random.integers(seeds, size=replicates), random.permutation(replicates)]
        for _ in range(seeds)
    ]
    return Estimate(values, mean_where_defined(np.stack(slots), 0))


def average(estimates: Sequence[Estimate]) -> Estimate:
    """The unweighted mean of independent estimates, for example over tasks."""
    return Estimate(
        mean_where_defined(np.stack([e.values for e in estimates]), 0),
        mean_where_defined(np.stack([e.replicates for e in estimates]), 0),
    )


def mean_where_defined(values: Array, axis: int) -> Array:
    """Mean over an axis, ignoring NaN; NaN where all values are NaN."""
    defined = ~np.isnan(values)
    count = defined.sum(axis)
    total = np.where(defined, values, 0).sum(axis)
    mean: Array = np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
    return mean


def weighted_mean(values: Array) -> Callable[[Array], Array]:
    """The statistic "mean of [examples, K]" for :func:`bootstrap`."""
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
    """The statistic "one-vs-one macro AUC" of several score tables, for :func:`bootstrap`.

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
    """The statistic "AUC of each pair of classes", for :func:`bootstrap`.

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
