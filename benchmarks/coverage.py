r"""How often the intervals of ``anchorflow.statistics`` cover the true value, on simulated data.

A data set has several seeds, which draw demonstrations, and test texts for each seed. It is
simulated thousands of times, and the share of nominal 95 % intervals that contain the true value is
counted, for one task and for the mean of three. The seeds' texts are all distinct, or the first
half or all of them are the same for every seed. The ratio r is the standard deviation between seeds
over that between examples of one seed. In the following, "noise" is normal with variance 1: half of
it belongs to the text, the same for every seed, and half to text and seed.

mean
    Of values r·a_s + noise, with a_s normal with variance 1. True value: 0.
paired differences
    Between the correct answers, 0 or 1, of two methods m: whether the latent
    c_m + b_sm + (u + v_m) / √2 > 0, with u and v_m noise, u common to both. The latents' difference
    has variance 1 between examples, so that b_sm, with variance r² / 2, gives it the ratio r.
    Accuracies are near .69 and .58. True value: Φ(c_1 / √(1 + r² / 2)) − Φ(c_2 / √(1 + r² / 2)).
differences of AUCs
    Late minus early layer. Half of the texts belong to either class; in layer l, scores of one
    class are noise + d_l + b_sl and those of the other noise, with b_sl of variance r² / 2. Noise
    has correlation 1/2 between the layers. AUCs are near .64 and .86. True value:
    Φ(d_2 / √(2 + r² / 2)) − Φ(d_1 / √(2 + r² / 2)).

    python benchmarks/coverage.py
    python benchmarks/coverage.py --data-sets 200 --kinds mean
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from anchorflow.arrays import Array
from anchorflow.statistics.estimates import (
    Estimate,
    SeedStatistic,
    Statistic,
    average,
    estimate,
    one_vs_one_auc,
    weighted_mean,
)

SEEDS = (3, 5, 10)
TEXTS = (10, 50, 500)
RATIOS = (0.0, 0.3, 0.6, 1.0)
SHARED = (0.0, 0.5, 1.0)
TASKS = 3
CONFIDENCE = 0.95
REQUIRED = (0.93, 0.99)
RIGHT = (0.5, 0.2)  # c_m, of paired differences
SHIFTS = (0.5, 1.5)  # d_l, of the early and the late layer
CHUNK = 500_000  # texts times data sets simulated at once, to bound memory


class Setting(NamedTuple):
    """Numbers of seeds and of texts per seed, share of texts common to all seeds, and r."""

    seeds: int
    texts: int
    shared: float
    ratio: float

    def identities(self) -> list[NDArray[np.int64]]:
        """The identities of each seed's texts."""
        common = round(self.texts * self.shared)
        rest = self.texts - common
        starts = (common + seed * rest for seed in range(self.seeds))
        return [np.r_[np.arange(common), np.arange(start, start + rest)] for start in starts]


def noise(
    random: np.random.Generator, texts: Sequence[NDArray[np.int64]], sets: int
) -> list[Array]:
    """Noise of every seed, [texts, data sets]: variance 1, half of it shared by a text's seeds."""
    of_texts = random.standard_normal((1 + max(of_seed.max() for of_seed in texts), sets))
    return [
        (of_texts[of_seed] + random.standard_normal((len(of_seed), sets))) * np.sqrt(0.5)
        for of_seed in texts
    ]


def means(random: np.random.Generator, setting: Setting, sets: int) -> list[SeedStatistic]:
    """Means of normal values; their true value is 0."""
    texts = setting.identities()
    seeds = setting.ratio * random.standard_normal((setting.seeds, sets))
    return [
        SeedStatistic(weighted_mean(seed + values), of_seed)
        for seed, values, of_seed in zip(seeds, noise(random, texts, sets), texts, strict=True)
    ]


def paired_differences(
    random: np.random.Generator, setting: Setting, sets: int
) -> list[SeedStatistic]:
    """Differences between the correct answers, 0 or 1, of two methods."""
    texts = setting.identities()
    common = noise(random, texts, sets)
    right = []
    for threshold in RIGHT:
        seeds = setting.ratio * np.sqrt(0.5) * random.standard_normal((setting.seeds, sets))
        own = noise(random, texts, sets)
        right.append(
            [
                threshold + seed + (u + v) * np.sqrt(0.5) > 0
                for seed, u, v in zip(seeds, common, own, strict=True)
            ]
        )
    return [
        SeedStatistic(weighted_mean(first.astype(float) - second), of_seed)
        for first, second, of_seed in zip(*right, texts, strict=True)
    ]


def auc_differences(
    random: np.random.Generator, setting: Setting, sets: int
) -> list[SeedStatistic]:
    """Late minus early AUC."""
    texts = setting.identities()
    common = noise(random, texts, sets)
    layers = []
    for shift in SHIFTS:
        seeds = setting.ratio * np.sqrt(0.5) * random.standard_normal((setting.seeds, sets))
        own = noise(random, texts, sets)
        layers.append(
            [
                (u + v) * np.sqrt(0.5) + (each % 2)[:, None] * (shift + seed)
                for seed, u, v, each in zip(seeds, common, own, texts, strict=True)
            ]
        )
    return [
        SeedStatistic(auc_difference(early, late, each % 2 == 1), each)
        for early, late, each in zip(*layers, texts, strict=True)
    ]


def auc_difference(early: Array, late: Array, positive: NDArray[np.bool_]) -> Statistic:
    """The AUC of late scores minus that of early ones, [texts, data sets], of two classes.

    As :func:`one_vs_one_auc`, but for scores without ties, and only for all texts or all but one:
    then a single sorting gives the number of pairs that each text wins.
    """
    pairs = positive.sum() * (~positive).sum()
    left = np.where(positive, (positive.sum() - 1) * (~positive).sum(), pairs - positive.sum())

    def of_layer(scores: Array, leaving_out: bool) -> Array:
        order = np.argsort(scores, 0)
        sorted_positive = positive[order]
        below = np.cumsum(~sorted_positive, 0)
        above = positive.sum() - np.cumsum(sorted_positive, 0)
        won = np.empty(scores.shape)
        np.put_along_axis(won, order, np.where(sorted_positive, below, above), 0)
        total = won[positive].sum(0, keepdims=True)
        return (total - won) / left[:, None] if leaving_out else total / pairs

    def statistic(weights: Array) -> Array:
        leaving_out = len(weights) > 1
        expected = 1 - np.eye(len(positive)) if leaving_out else np.ones((1, len(positive)))
        assert np.array_equal(weights, expected)
        difference: Array = of_layer(late, leaving_out) - of_layer(early, leaving_out)
        return difference

    return statistic


class Kind(NamedTuple):
    """A kind of estimate: how its data sets are drawn, and its true value for a ratio r."""

    draw: Callable[[np.random.Generator, Setting, int], list[SeedStatistic]]
    truth: Callable[[float], float]


def _difference(low: float, high: float, variance: float, ratio: float) -> float:
    return float(np.diff(norm.cdf(np.array([low, high]) / np.sqrt(variance + ratio**2 / 2)))[0])


KINDS = {
    "mean": Kind(means, lambda ratio: 0.0),
    "paired differences": Kind(
        paired_differences, lambda ratio: _difference(RIGHT[1], RIGHT[0], 1, ratio)
    ),
    "differences of AUCs": Kind(auc_differences, lambda ratio: _difference(*SHIFTS, 2, ratio)),
}


def covered(estimated: Estimate, truth: float) -> Array:
    """Whether the interval of each data set contains the true value, [data sets]."""
    low, high = estimated.interval(CONFIDENCE)
    return (low <= truth) & (truth <= high)


def coverage(kind: Kind, setting: Setting, sets: int, random: np.random.Generator) -> Array:
    """The share of intervals that contain the true value: for one task, and the mean of three."""
    held = np.zeros(2)
    step = max(1, CHUNK // (setting.seeds * setting.texts))
    for start in range(0, sets, step):
        size = min(step, sets - start)
        tasks = [estimate(kind.draw(random, setting, size)) for _ in range(TASKS)]
        for place, estimated in enumerate((tasks[0], average(tasks))):
            held[place] += covered(estimated, kind.truth(setting.ratio)).sum()
    return held / sets


def require_equal_aucs() -> None:
    """Check that the simulation's quick AUCs equal those of the summaries."""
    random = np.random.default_rng(0)
    positive = np.arange(9) % 2 == 1
    layers = random.standard_normal((2, 9, 1))
    scores = np.stack([-layers[:, :, 0], layers[:, :, 0]], -1).transpose(1, 0, 2)
    for weights in (np.ones((1, 9)), 1 - np.eye(9)):
        aucs = one_vs_one_auc(scores, positive.astype(int))(weights)
        quick = auc_difference(*layers, positive)(weights)
        np.testing.assert_allclose(quick[:, 0], aucs[:, 1] - aucs[:, 0])


def table(kind: Kind, sets: int) -> Iterator[str]:
    """Rows of Markdown: lowest to highest coverage in percent over tasks and shared texts."""
    yield "| seeds × texts | " + " | ".join(f"r = {ratio:g}" for ratio in RATIOS) + " |"
    yield "|---" * (1 + len(RATIOS)) + "|"
    for place, (seeds, texts) in enumerate(product(SEEDS, TEXTS)):
        cells = []
        for ratio in RATIOS:
            random = np.random.default_rng([place, round(10 * ratio)])
            found = [
                coverage(kind, Setting(seeds, texts, shared, ratio), sets, random)
                for shared in SHARED
            ]
            cells.append(_cell(100 * np.stack(found)))
        yield f"| {seeds} × {texts} | " + " | ".join(cells) + " |"


def _cell(shares: Array) -> str:
    outside = (shares < 100 * REQUIRED[0]) | (shares > 100 * REQUIRED[1])
    star = "*" if outside.any() else ""
    return f"{shares.min():.1f} to {shares.max():.1f}{star}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data-sets", type=int, default=2000)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    chosen = parser.parse_args()
    require_equal_aucs()
    start = time.perf_counter()
    for name in chosen.kinds:
        print(f"\n**{name[0].upper()}{name[1:]}**\n")
        for line in table(KINDS[name], chosen.data_sets):
            print(line, flush=True)
    print(f"\n{time.perf_counter() - start:.0f} seconds")


if __name__ == "__main__":
    main()
