r"""How often the intervals of ``anchorflow.statistics`` cover the true value, on simulated data.

A data set has several seeds, which draw demonstrations, and test texts for each seed. It is
simulated thousands of times. Counted are the nominal 95 % intervals that contain the true value,
and the verdicts that are false: the interval is above 0 and the true value is not, or the other way
round. Numbers are the worst of eight settings: the seeds' texts are all distinct, half of them is
the same, all are the same, or each seed draws them from 120; and the ratio r of the standard
deviation between seeds to that between texts is 0 or .6. In the following, "noise" is normal with
variance 1: half of it belongs to the text, the same for every seed, and half to text and seed.

differences
    Between the correct answers, 0 or 1, of two methods m: whether the latent
    c_m + b_sm + (u + v_m) / √2 > 0, with u and v_m noise, u common to both. The latents' difference
    has variance 1 between texts, so that b_sm, with variance r² / 2, gives it the ratio r. True
    value: Φ(c_1 / √(1 + r² / 2)) − Φ(c_2 / √(1 + r² / 2)). Of frequent differences, accuracies are
    near .69 and .58; of rare ones, near .97 and .94; "none" has .58 twice, "ceiling" .97 twice.
heavy tails
    Student's t with three degrees of freedom, shifted by .5, in place of noise.
skewed
    Exponential values, whose skewness is 2, with mean .5 and variance 1, in place of noise.
AUCs
    Late minus early layer. Half of the texts belong to either class; in layer l, scores of one
    class are noise + d_l + b_sl and those of the other noise, with b_sl of variance r² / 2. Noise
    has correlation 1/2 between the layers. AUCs are near .64 and .86. True value:
    Φ(d_2 / √(2 + r² / 2)) − Φ(d_1 / √(2 + r² / 2)).
share
    Of correct answers, near .97: a single share, on which no verdict rests.
one seed
    Differences that occur in one seed alone: each text of a random seed differs with probability
    .5, of the others never. True value: .5 / seeds.

    python benchmarks/coverage.py
    python benchmarks/coverage.py --data-sets 200 --kinds rare
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from anchorflow.arrays import Array
from anchorflow.statistics.estimates import (
    SeedStatistic,
    Statistic,
    average,
    estimate,
    one_vs_one_auc,
    weighted_mean,
)

SEEDS = (2, 3, 4, 8)
TEXTS = (1, 4, 6, 16)
RATIOS = (0.0, 0.6)
POOL = 120  # test texts from which seeds draw, as in the default run
SHARED = (0.0, 0.5, 1.0, None)
TASKS = (1, 3)
CONFIDENCE = 0.95
LEAST_COVERED, MOST_FALSE = 0.93, 0.03
FREQUENT, RARE, NONE, CEILING = (0.5, 0.2), (1.9, 1.55), (0.2, 0.2), (1.9, 1.9)  # c_m
SHIFT = 0.5  # of heavy tails
SHIFTS = (0.5, 1.5)  # d_l, of the early and the late layer
CHUNK = 500_000  # texts times data sets simulated at once, to bound memory


class Setting(NamedTuple):
    """Numbers of seeds and of texts per seed, share of texts common to all seeds, and r.

    ``shared`` is None if each seed draws its texts from ``POOL``.
    """

    seeds: int
    texts: int
    shared: float | None
    ratio: float

    def identities(self) -> list[NDArray[np.int64]]:
        """The identities of each seed's texts."""
        if self.shared is None:
            draws = np.random.default_rng([self.seeds, self.texts])
            counts = {1: self.texts // 2, 0: (self.texts + 1) // 2}  # odd ones are one class
            return [
                np.concatenate(
                    [
                        2 * draws.choice(POOL // 2, count, replace=False) + odd
                        for odd, count in counts.items()
                    ]
                )
                for _ in range(self.seeds)
            ]
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


Values = Callable[[tuple[int, int]], Array]  # drawn independently, in a shape


def means(
    values: Callable[[np.random.Generator], Values],
    random: np.random.Generator,
    setting: Setting,
    sets: int,
) -> list[SeedStatistic]:
    """Means of values that are a text's, the same for every seed, plus a text's and seed's."""
    texts, draw = setting.identities(), values(random)
    seeds = setting.ratio * random.standard_normal((setting.seeds, sets))
    of_texts = draw((1 + max(of_seed.max() for of_seed in texts), sets))
    return [
        SeedStatistic(weighted_mean(SHIFT + seed + of_texts[of] + draw((len(of), sets))), of)
        for seed, of in zip(seeds, texts, strict=True)
    ]


def heavy_tails(random: np.random.Generator) -> Values:
    return lambda shape: random.standard_t(3, shape)


def skewed(random: np.random.Generator) -> Values:
    return lambda shape: random.gamma(0.5, size=shape) - 0.5  # two of them add up to Exp(1) - 1


def shares(random: np.random.Generator, setting: Setting, sets: int) -> list[SeedStatistic]:
    """The correct answers of one method."""
    texts = setting.identities()
    seeds = setting.ratio * random.standard_normal((setting.seeds, sets))
    return [
        SeedStatistic(weighted_mean((CEILING[0] + seed + values > 0).astype(float)), of_seed)
        for seed, values, of_seed in zip(seeds, noise(random, texts, sets), texts, strict=True)
    ]


def of_one_seed(random: np.random.Generator, setting: Setting, sets: int) -> list[SeedStatistic]:
    """Differences that a random seed has in half of its texts, and others never."""
    which = random.integers(setting.seeds, size=sets)
    return [
        SeedStatistic(weighted_mean((which == seed) * (random.random((len(of), sets)) < 0.5)), of)
        for seed, of in enumerate(setting.identities())
    ]


def differences(
    thresholds: Sequence[float], random: np.random.Generator, setting: Setting, sets: int
) -> list[SeedStatistic]:
    """Differences between the correct answers, 0 or 1, of two methods."""
    texts = setting.identities()
    common = noise(random, texts, sets)
    right = []
    for threshold in thresholds:
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
    """A kind of estimate: how its data sets are drawn, and its true value in a setting."""

    draw: Callable[[np.random.Generator, Setting, int], list[SeedStatistic]]
    truth: Callable[[Setting], float]


def _difference(low: float, high: float, variance: float, ratio: float) -> float:
    return float(np.diff(norm.cdf(np.array([low, high]) / np.sqrt(variance + ratio**2 / 2)))[0])


def _of_differences(thresholds: tuple[float, float]) -> Kind:
    high, low = thresholds
    return Kind(
        partial(differences, thresholds), lambda setting: _difference(low, high, 1, setting.ratio)
    )


KINDS = {
    "frequent": _of_differences(FREQUENT),
    "rare": _of_differences(RARE),
    "none": _of_differences(NONE),
    "ceiling": _of_differences(CEILING),
    "heavy tails": Kind(partial(means, heavy_tails), lambda setting: SHIFT),
    "skewed": Kind(partial(means, skewed), lambda setting: SHIFT),
    "AUCs": Kind(auc_differences, lambda setting: _difference(*SHIFTS, 2, setting.ratio)),
    "share": Kind(
        shares, lambda setting: float(norm.cdf(CEILING[0] / np.sqrt(1 + setting.ratio**2)))
    ),
    "one seed": Kind(of_one_seed, lambda setting: 0.5 / setting.seeds),
}


class Found(NamedTuple):
    """Shares of data sets, and whether verdicts are refused for lack of texts."""

    covered: float
    false: float
    refused: bool


def found(
    kind: Kind, setting: Setting, tasks: int, sets: int, random: np.random.Generator
) -> Found:
    """How often the intervals of one setting cover the true value, and give a false verdict."""
    covered = false = 0
    step = max(1, CHUNK // (setting.seeds * setting.texts))
    for start in range(0, sets, step):
        size = min(step, sets - start)
        of_tasks = [estimate(kind.draw(random, setting, size)) for _ in range(tasks)]
        estimated, truth = average(of_tasks), kind.truth(setting)
        low, high = estimated.interval(CONFIDENCE)
        covered += int(((low <= truth) & (truth <= high)).sum())
        false += int(((high <= 0) if truth > 0 else (low > 0)).sum())
    return Found(covered / sets, false / sets, estimated.few_texts)


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


def rows(kinds: Sequence[str], sets: int) -> Iterator[str]:
    """Rows of Markdown: coverage / false verdicts in percent, the worst of eight settings."""
    yield "| seeds × texts × tasks | " + " | ".join(kinds) + " |"
    yield "|---" * (1 + len(kinds)) + "|"
    for place, (seeds, texts, tasks) in enumerate(product(SEEDS, TEXTS, TASKS)):
        yield (
            f"| {seeds} × {texts} × {tasks} | "
            + " | ".join(
                _cell(
                    [
                        found(
                            KINDS[name],
                            Setting(seeds, texts, shared, ratio),
                            tasks,
                            sets,
                            np.random.default_rng([place, round(10 * ratio), sharing]),
                        )
                        for (sharing, shared), ratio in product(enumerate(SHARED), RATIOS)
                    ]
                )
                if name != "AUCs" or texts > 1
                else "–"
                for name in kinds
            )
            + " |"
        )


def _cell(settings: Sequence[Found]) -> str:
    """Of the settings in which a verdict is given; * if the numbers are not as required."""
    judged = [setting for setting in settings if not setting.refused]
    if not judged:
        return "refused"
    covered = min(setting.covered for setting in judged)
    false = max(setting.false for setting in judged)
    star = "*" if covered < LEAST_COVERED or false > MOST_FALSE else ""
    return f"{100 * covered:.1f} / {100 * false:.1f}{star}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data-sets", type=int, default=20_000)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    chosen = parser.parse_args()
    require_equal_aucs()
    start = time.perf_counter()
    for line in rows(chosen.kinds, chosen.data_sets):
        print(line, flush=True)
    print(f"\n{time.perf_counter() - start:.0f} seconds")


if __name__ == "__main__":
    main()
