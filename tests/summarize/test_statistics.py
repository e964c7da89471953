"""Uncertainty: against scikit-learn, a bootstrap written plainly, and values by hand."""

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from anchorflow.summarize.statistics import (
    Estimate,
    average,
    bootstrap,
    mean_where_defined,
    one_vs_one_auc,
    pairwise_auc,
    weighted_mean,
)


def test_pairwise_auc_is_that_of_the_ratio_of_probabilities() -> None:
    random = np.random.default_rng(1)
    scores, labels = random.normal(size=(30, 3)), np.tile([0, 1, 2], 10)
    weights = random.multinomial(30, np.full(30, 1 / 30), 5).astype(float)
    aucs = pairwise_auc(scores, labels)(weights)
    for place, (a, b) in enumerate(combinations(range(3), 2)):
        pair = np.isin(labels, (a, b))
        for weight, auc in zip(weights, aucs[:, place], strict=True):
            plain = roc_auc_score(
                labels[pair] == a, (scores[:, a] - scores[:, b])[pair], sample_weight=weight[pair]
            )
            assert auc == pytest.approx(plain)
    assert np.isnan(pairwise_auc(scores[:2], labels[:2])(np.ones((1, 2)))[0]).tolist() == [
        False,
        True,
        True,
    ]


Array = NDArray[np.float64]
NAN = float("nan")


def random_scores(
    classes: int, examples: int = 60, layers: int = 3, seed: int = 0
) -> tuple[Array, NDArray[np.int64]]:
    """Scores [examples, L, C] that sum to 1 over classes, with ties, and labels of all classes."""
    random = np.random.default_rng(seed)
    labels = np.arange(examples) % classes
    scores = random.integers(1, 6, (examples, layers, classes)).astype(float)
    scores[np.arange(examples), :, labels] += random.integers(0, 3, (examples, layers))
    return scores / scores.sum(-1, keepdims=True), labels


def reference_auc(scores: Array, labels: NDArray[np.int64]) -> float:
    """scikit-learn's one-vs-one macro AUC of one layer, with two classes written as such."""
    if scores.shape[1] == 2:
        return float(roc_auc_score(labels, scores[:, 1]))
    return float(roc_auc_score(labels, scores, multi_class="ovo", average="macro"))


@pytest.mark.parametrize("classes", [2, 3, 4, 6])
def test_one_vs_one_auc_equals_scikit_learn(classes: int) -> None:
    scores, labels = random_scores(classes)
    ours = one_vs_one_auc(scores, labels)(np.ones((1, len(labels))))[0]
    expected = [reference_auc(scores[:, layer], labels) for layer in range(3)]
    np.testing.assert_allclose(ours, expected, rtol=1e-12)
    assert 0.5 < min(expected) < max(expected) < 1


@pytest.mark.parametrize("classes", [2, 4])
def test_whole_number_weights_repeat_examples(classes: int) -> None:
    scores, labels = random_scores(classes)
    weights = np.random.default_rng(1).integers(0, 4, (5, len(labels)))
    ours = one_vs_one_auc(scores, labels)(weights.astype(float))
    for row, times in zip(ours, weights, strict=True):
        repeated, again = np.repeat(scores, times, 0), np.repeat(labels, times)
        expected = [reference_auc(repeated[:, layer], again) for layer in range(3)]
        np.testing.assert_allclose(row, expected, rtol=1e-12)


def test_auc_of_four_examples_equals_the_value_worked_out_by_hand() -> None:
    # Class 1's score of its two examples: 0.9, 0.4; of the others: 0.4, 0.1.
    # Pairs won: (0.9, 0.4), (0.9, 0.1), (0.4, 0.1), and half of (0.4, 0.4): 3.5 of 4.
    high = np.array([0.9, 0.4, 0.4, 0.1])
    scores = np.stack([1 - high, high], -1)[:, None]
    auc = one_vs_one_auc(scores, np.array([1, 1, 0, 0]))(np.ones((1, 4)))
    assert auc.tolist() == [[0.875]]


def test_auc_of_a_perfect_a_reversed_and_a_constant_score() -> None:
    labels = np.array([0, 1, 2, 0, 1, 2])
    perfect = np.eye(3)[labels]
    scores = np.stack([perfect, -perfect, np.zeros_like(perfect)], 1)
    auc = one_vs_one_auc(scores, labels)(np.ones((1, 6)))
    assert auc.tolist() == [[1.0, 0.0, 0.5]]


def test_auc_of_a_single_class_is_undefined() -> None:
    scores, _ = random_scores(3, examples=5)
    auc = one_vs_one_auc(scores, np.zeros(5, int))(np.ones((2, 5)))
    assert auc.shape == (2, 3)
    assert np.isnan(auc).all()


def test_a_replicate_without_one_class_leaves_out_its_pairs() -> None:
    scores, labels = random_scores(3)
    weights = np.stack([labels != 2, labels == 0]).astype(float)
    first, second = one_vs_one_auc(scores, labels)(weights)
    kept = labels != 2
    only = one_vs_one_auc(scores[kept], labels[kept])(np.ones((1, kept.sum())))[0]
    np.testing.assert_allclose(first, only, rtol=1e-12)
    assert np.isnan(second).all()


def test_a_mean_leaves_out_what_is_undefined() -> None:
    values = np.array([[1.0, NAN, NAN], [3.0, 4.0, NAN]])
    np.testing.assert_array_equal(mean_where_defined(values, 0), [2.0, 4.0, NAN])


def test_a_weighted_mean_counts_an_example_as_often_as_its_weight() -> None:
    values = np.array([[1.0, 10.0], [2.0, 20.0], [6.0, 60.0]])
    weights = np.array([[1.0, 1.0, 1.0], [0.0, 2.0, 1.0]])
    assert weighted_mean(values)(weights)[0].tolist() == [3.0, 30.0]
    np.testing.assert_allclose(weighted_mean(values)(weights)[1], [10 / 3, 100 / 3])


def test_a_value_is_the_mean_over_seeds_of_the_mean_over_examples() -> None:
    seeds = [np.array([[1.0], [3.0]]), np.array([[6.0]])]
    estimate = bootstrap(
        [weighted_mean(values) for values in seeds], [2, 1], 10, np.random.default_rng(0)
    )
    assert estimate.values.tolist() == [4.0]
    assert estimate.replicates.shape == (10, 1)


def test_a_value_leaves_out_seeds_for_which_it_is_undefined() -> None:
    statistics = [weighted_mean(np.array([[2.0], [4.0]])), lambda w: np.full((len(w), 1), NAN)]
    estimate = bootstrap(statistics, [2, 5], 100, np.random.default_rng(0))
    assert estimate.values.tolist() == [3.0]
    assert 2.0 <= np.nanmin(estimate.replicates) <= np.nanmax(estimate.replicates) <= 4.0


def test_the_same_generator_gives_the_same_replicates() -> None:
    values = np.random.default_rng(0).normal(size=(10, 2))
    first, second = (
        bootstrap([weighted_mean(values)], [10], 20, np.random.default_rng(5)) for _ in range(2)
    )
    np.testing.assert_array_equal(first.replicates, second.replicates)


def naive_interval(seeds: list[Array], replicates: int, random: np.random.Generator) -> Array:
    """The 90% interval of a two-level bootstrap of the mean, written plainly."""
    means = []
    for _ in range(replicates):
        chosen = [seeds[i] for i in random.integers(len(seeds), size=len(seeds))]
        means.append(np.mean([random.choice(values, len(values)).mean() for values in chosen]))
    ends: Array = np.quantile(means, [0.05, 0.95])
    return ends


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_the_interval_equals_that_of_a_plain_two_level_bootstrap(spread: float) -> None:
    random = np.random.default_rng(0)
    seeds = [random.normal(random.normal(0, spread), 1, 25) for _ in range(4)]
    estimate = bootstrap(
        [weighted_mean(values[:, None]) for values in seeds], [25] * 4, 4000, random
    )
    low, high = estimate.interval(0.9)
    expected = naive_interval(seeds, 4000, random)
    width = expected[1] - expected[0]
    np.testing.assert_allclose([low[0], high[0]], expected, atol=0.06 * width)


def test_a_90_percent_interval_covers_the_truth_about_as_often() -> None:
    random = np.random.default_rng(0)
    covered, widths = 0, []
    for _ in range(300):
        values = random.normal(0, 1, (40, 1))
        estimate = bootstrap([weighted_mean(values)], [40], 200, random)
        low, high = estimate.interval(0.9)
        covered += int(low[0] <= 0 <= high[0])
        widths.append(high[0] - low[0])
    assert 0.83 <= covered / 300 <= 0.94
    assert np.mean(widths) == pytest.approx(2 * 1.645 / np.sqrt(40), rel=0.06)


def test_an_interval_s_ends_are_quantiles_of_the_defined_replicates() -> None:
    column = np.append(np.arange(101.0), NAN)
    replicates = np.stack([column, np.full(102, NAN)], 1)
    low, high = Estimate(np.array([50.0, NAN]), replicates).interval(0.9)
    np.testing.assert_allclose(low, [5.0, NAN])
    np.testing.assert_allclose(high, [95.0, NAN])


def test_an_average_weighs_every_task_the_same_and_leaves_out_undefined_ones() -> None:
    first = Estimate(np.array([1.0, 2.0]), np.array([[1.0, 2.0], [3.0, 4.0]]))
    second = Estimate(np.array([5.0, NAN]), np.array([[5.0, NAN], [7.0, 8.0]]))
    both = average([first, second])
    assert both.values.tolist() == [3.0, 2.0]
    assert both.replicates.tolist() == [[3.0, 2.0], [5.0, 6.0]]


def test_a_function_is_applied_to_the_value_and_to_every_replicate() -> None:
    estimate = Estimate(np.array([1.0, 2.0]), np.array([[1.0, 3.0], [2.0, 5.0]]))
    summed = estimate.map(lambda values: np.cumsum(values, -1))
    assert summed.values.tolist() == [1.0, 3.0]
    assert summed.replicates.tolist() == [[1.0, 4.0], [2.0, 7.0]]
