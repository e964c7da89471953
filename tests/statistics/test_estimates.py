"""Uncertainty: values by hand, SciPy's t tests, scikit-learn's AUCs, and how often it covers."""

from collections.abc import Sequence
from itertools import combinations, pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from sklearn.metrics import roc_auc_score

from anchorflow.statistics.estimates import (
    Estimate,
    SeedStatistic,
    Sharing,
    average,
    components,
    estimate,
    mean_where_defined,
    one_vs_one_auc,
    pairwise_auc,
    weighted_mean,
    weighted_mean_where_defined,
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
    undefined = np.isnan(pairwise_auc(scores[:2], labels[:2])(np.ones((1, 2)))[0])
    assert undefined.tolist() == [False, True, True]


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


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_one_vs_one_auc_is_scikit_learn_s_of_examples_repeated_by_their_weights(
    classes: int,
) -> None:
    scores, labels = random_scores(classes)
    weights = np.random.default_rng(1).integers(0, 4, (5, len(labels)))
    weights[0] = 1
    ours = one_vs_one_auc(scores, labels)(weights.astype(float))
    for row, times in zip(ours, weights, strict=True):
        repeated, again = np.repeat(scores, times, 0), np.repeat(labels, times)
        expected = [reference_auc(repeated[:, layer], again) for layer in range(3)]
        np.testing.assert_allclose(row, expected, rtol=1e-12)


def test_auc_of_a_single_class_is_undefined() -> None:
    scores, _ = random_scores(3, examples=5)
    auc = one_vs_one_auc(scores, np.zeros(5, int))(np.ones((2, 5)))
    assert auc.shape == (2, 3)
    assert np.isnan(auc).all()


def test_weights_without_one_class_leave_out_its_pairs() -> None:
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


def of_means(*seeds: Sequence[float], texts: Sequence[Sequence[int]] = ()) -> Estimate:
    """The mean of each seed's values, NaN where undefined; texts are distinct unless given."""
    sizes = np.cumsum([0, *map(len, seeds)])
    distinct = [range(*ends) for ends in pairwise(sizes)]
    return estimate(
        [
            SeedStatistic(
                weighted_mean_where_defined(np.array(values, float)[:, None]), np.array(of)
            )
            for values, of in zip(seeds, texts or distinct, strict=True)
        ]
    )


def half_width(estimated: Estimate, confidence: float = 0.95) -> float:
    low, high = estimated.interval(confidence)
    assert (low + high) / 2 == pytest.approx(estimated.values)
    return float((high - low)[0] / 2)


def test_the_interval_of_three_seeds_is_student_s_t_with_two_degrees_of_freedom() -> None:
    # Means 1, 2, 6: their variance is (4 + 1 + 9) / 2 = 7, so that of their mean 7 / 3.
    estimated = of_means([0, 2], [1, 3], [5, 7])
    assert estimated.values.tolist() == [3.0]
    assert half_width(estimated) == pytest.approx(4.302653 * np.sqrt(7 / 3))
    assert estimated.p_value()[0] == pytest.approx(stats.ttest_1samp([1, 2, 6], 0).pvalue)
    assert not estimated.one_seed


def test_seeds_that_agree_by_chance_leave_the_variance_between_texts() -> None:
    # The variance of each seed's texts is 2, so that of the mean of six 2 / 6, from 2 + 2 + 2 - 3
    # degrees of freedom; at twice the error rate, 10 %, t is 2.353363.
    estimated = of_means([0, 2], [0, 2], [2, 0])
    assert half_width(estimated) == pytest.approx(2.353363 * np.sqrt(1 / 3))
    assert estimated.p_value()[0] == pytest.approx(stats.t.sf(np.sqrt(3), 3))


def test_where_no_text_differs_the_interval_is_that_of_a_rare_difference() -> None:
    # Three seeds of two texts: t, with 2 degrees of freedom, over 6 + 2. Shared texts count once.
    same, shared = of_means([1, 1], [1, 1], [1, 1]), [[0, 1]] * 3
    assert half_width(same) == pytest.approx(4.302653 / 8)
    assert half_width(of_means([1, 1], [1, 1], [1, 1], texts=shared)) == pytest.approx(4.302653 / 4)
    assert same.p_value()[0] == pytest.approx(2 * stats.t.sf(8, 2))
    # Of ten seeds, t is 2.26, but a share of 3.00 / 20 would hardly show in none of 20 texts.
    assert half_width(of_means(*[[0, 0]] * 10)) == pytest.approx(-np.log(0.05) / 22)
    # Of one seed, and of two tasks whose degrees of freedom add up.
    assert half_width(of_means([0] * 4)) == pytest.approx(stats.t.isf(0.025, 3) / 6)
    tasks = average([same, of_means([1, 1], [1, 1], [1, 1])])
    assert half_width(tasks) == pytest.approx(-np.log(0.05) / 14)
    # Rounding is no difference, and what has no unit in which a text differs has no interval.
    third = of_means([1 / 3] * 2, [1 / 3] * 2, [0.1 + 0.2 + 1 / 3 - 0.3] * 2)
    assert half_width(third) == pytest.approx(4.302653 / 8)
    assert np.isnan(same.interval(0.95, change=0)).all()


def test_the_interval_of_a_share_of_few_texts_is_that_of_these_texts() -> None:
    # Of nine texts in three seeds, one in each has a value, and text 0 has it in two seeds.
    values = weighted_mean_where_defined(np.array([[1], [NAN], [NAN]]))
    seeds = [SeedStatistic(values, np.array(texts)) for texts in ([0, 1, 2], [0, 3, 4], [5, 6, 7])]
    assert half_width(estimate(seeds)) == pytest.approx(4.302653 / (2 + 2))
    # Over tasks, the texts that have a value are added up.
    every = of_means([1, 1], [1, 1], [1, 1])
    both = average([estimate(seeds), every])
    assert half_width(both) == pytest.approx(-np.log(0.05) / (8 + 2))
    # A task without a value has none, nor seeds; and nor has a seed without a value.
    nowhere = of_means([NAN] * 20, [NAN] * 20)
    assert half_width(average([both, nowhere])) == half_width(both)
    some = of_means([1], [1], *[[NAN]] * 8, texts=[[text] for text in range(10)])
    assert half_width(some) == half_width(of_means([1], [1])) == pytest.approx(12.7062 / (2 + 2))
    assert half_width(average([some, nowhere])) == half_width(some)
    # No text has a value alone, as for a correlation: all count.
    pairs = [
        of._replace(statistic=lambda w: np.where(w.sum(1) > 1, 1, NAN)[:, None]) for of in seeds
    ]
    assert half_width(estimate(pairs)) == pytest.approx(4.302653 / (8 + 2))


def test_too_few_texts_are_those_that_do_not_outnumber_the_seeds() -> None:
    assert of_means([1], [2]).few_texts
    assert of_means([1, 2], [2, 3], [3, 4], texts=[[0, 1]] * 3).few_texts
    assert not of_means([1, 2], [2, 3], [3, 4], texts=[[0, 1], [1, 2], [0, 2]]).few_texts
    assert average([of_means([1, 2], [2, 3]), of_means([1], [2])]).few_texts


def test_what_shared_texts_add_is_the_variance_between_texts() -> None:
    # Seed 1 adds 1 to every text. Means 3 and 4: variance of their mean 1/2 · 1/2 = 1/4. The
    # texts' variance is 9 in both, so that of the mean of three 3, with 2 degrees of freedom.
    estimated = of_means([0, 3, 6], [1, 4, 7], texts=[[0, 1, 2], [0, 1, 2]])
    parts = components(estimated.values, estimated.strata[0])
    assert [float(part.variance[0]) for part in parts] == pytest.approx([0.25, 3, 3])
    assert [float(part.freedom[0]) for part in parts] == [1, 2, 4]
    expected = np.sqrt(12.706205**2 / 4 + 3 * 4.302653**2)
    assert half_width(estimated) == pytest.approx(expected)
    # The same values of other texts are spread around two means by the two seeds alone.
    assert half_width(of_means([0, 3, 6], [1, 4, 7])) == pytest.approx(12.706205 / 2)


def test_texts_that_only_some_seeds_share_count_where_they_meet() -> None:
    # Both seeds have texts 1 to 8, and one more each: 0 and 9. Means are 4 in both. Deviations of
    # 1 to 8 are -3, ..., 4 in one and their negatives but for text 8 in the other, as below.
    one = [4, 1, 7, 1, 7, 1, 7, 1, 7]
    other = [1, 7, 1, 7, 1, 7, 7, 1, 4]
    texts = [list(range(9)), list(range(1, 10))]
    parts = components((of := of_means(one, other, texts=texts)).values, of.strata[0])
    # Products of deviations, each -3, 0 or 3: eight common texts, six alike, two not: 4 · 9 = 36,
    # in the mean of two seeds over 18 · 18, twice: 2/9. Of eight common texts among nine,
    # centering leaves (8 - 16/9 + 64/81) / 81 of 8/81: 568/648; the mean of two seeds half of it.
    recovered = 648 / 568
    assert Sharing.of([np.array(of_seed) for of_seed in texts]).recovered == pytest.approx(
        recovered
    )
    assert parts.shared_texts.variance == pytest.approx(2 / 9 * recovered * 2)
    assert parts.shared_texts.freedom.tolist() == [7]


def test_few_shared_texts_count_as_if_all_that_texts_differ_by_were_common() -> None:
    # Texts 1 and 2 are common. The texts' variance is 9 in both seeds, so that of the mean of six
    # 9 / 6. Two of three are common: two thirds of it, twice since the variance between two seeds
    # lacks it: 2. Four texts in two seeds leave two degrees of freedom; the two would leave one.
    estimated = of_means([0, 3, 6], [3, 6, 0], texts=[[0, 1, 2], [1, 2, 3]])
    parts = components(estimated.values, estimated.strata[0])
    assert parts.shared_texts.variance == pytest.approx(2)
    assert parts.shared_texts.freedom.tolist() == [2]
    assert parts.within_seeds.variance == pytest.approx(9 / 6 + 1)


def test_one_outlier_in_two_seeds_widens_an_interval_by_no_more_than_all_texts_could() -> None:
    random = np.random.default_rng(0)
    values = [list(random.normal(size=4)) for _ in range(10)]
    values[0][0] = values[1][0] = 6.0
    texts = [list(range(4 * seed, 4 * seed + 4)) for seed in range(10)]
    texts[1][0] = 0
    shared, distinct = of_means(*values, texts=texts), of_means(*values)
    assert components(shared.values, shared.strata[0]).shared_texts.freedom.tolist() == [39 - 10]
    # Of 40 texts, a pair is common: the ratio of the covariance to the variance within is 2 / 40.
    assert Sharing.of([np.array(of_seed) for of_seed in texts]).most == pytest.approx(2 / 40)
    assert half_width(distinct) < half_width(shared) < 1.1 * half_width(distinct)


def test_many_shared_texts_are_estimated_and_few_are_bounded_whatever_their_values() -> None:
    def of(shared: int, texts: int, seeds: int) -> Sharing:
        own = [np.arange(shared, texts) + texts * seed for seed in range(1, seeds + 1)]
        return Sharing.of([np.r_[np.arange(shared), rest] for rest in own])

    assert of(2, 12, 4).few
    assert not of(8, 12, 4).few
    assert not of(4, 4, 8).few  # where the bound would count each text eight times
    assert of(0, 12, 4).most == 0


def test_seeds_without_a_value_share_no_texts_with_the_others() -> None:
    # The third seed has no value: all is as without it, whichever texts it has.
    texts = [[0, 1, 2], [0, 1, 2], [7, 8, 9]]
    with_gap = of_means([0, 3, 6], [1, 4, 7], [NAN, NAN, NAN], texts=texts)
    without = of_means([0, 3, 6], [1, 4, 7], texts=texts[:2])
    assert half_width(with_gap) == pytest.approx(half_width(without))


def test_texts_that_vary_in_opposite_ways_take_nothing_away() -> None:
    estimated = of_means([0, 6], [7, 1], texts=[[0, 1], [0, 1]])
    parts = components(estimated.values, estimated.strata[0])
    assert parts.shared_texts.variance.tolist() == [0.0]
    assert half_width(estimated) == pytest.approx(12.706205 / 2)


def test_one_seed_is_judged_by_its_texts() -> None:
    values = [0.0, 3.0, 6.0]  # variance 9, of the mean 3
    estimated = of_means(values)
    assert estimated.one_seed
    assert half_width(estimated) == pytest.approx(4.302653 * np.sqrt(3))
    assert estimated.p_value()[0] == pytest.approx(stats.ttest_1samp(values, 0).pvalue)


def test_a_seed_without_a_value_is_left_out() -> None:
    estimated = of_means([0, 2], [NAN, NAN], [2, 4])
    assert estimated.values.tolist() == [2.0]
    # Means 1 and 3: the variance of their mean is 2 / 2, with one degree of freedom.
    assert half_width(estimated) == pytest.approx(12.706205)


def test_a_text_without_a_value_is_as_if_it_were_not_there() -> None:
    with_gap, without = of_means([0, NAN, 6, 3]), of_means([0, 6, 3])
    assert with_gap.values.tolist() == without.values.tolist() == [3.0]
    # One text of four more: the jackknife's factor is 3/4 and not 2/3, and its freedom 3, not 2.
    part = components(with_gap.values, with_gap.strata[0]).within_seeds
    assert part.variance == pytest.approx(3 * (3 / 4) / (2 / 3))


def test_a_value_in_a_single_seed_of_several_has_no_interval() -> None:
    estimated = of_means([0, 2], [NAN, NAN])
    assert estimated.values.tolist() == [1.0]
    assert np.isnan(estimated.interval(0.95)).all()
    assert np.isnan(estimated.p_value()).all()


@pytest.mark.parametrize("nothing", [of_means([NAN], [NAN]), Estimate(np.array([NAN]), ())])
def test_what_is_undefined_in_all_seeds_stays_so(nothing: Estimate) -> None:
    assert np.isnan([nothing.values, *nothing.interval(0.95), nothing.p_value()]).all()


def test_a_text_given_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="the same text twice"):
        of_means([1, 2], texts=[[7, 7]])


@pytest.mark.parametrize("seeds", [1, 2, 5])
def test_the_interval_at_an_error_rate_of_the_p_value_reaches_0(seeds: int) -> None:
    random = np.random.default_rng(seeds)
    texts = [np.arange(s, 6 + s) for s in range(seeds)]  # neighbors share five
    tasks = [
        estimate([SeedStatistic(weighted_mean(random.normal(0.2, 1, (6, 50))), of) for of in texts])
        for _ in range(2)
    ]
    estimated = average(tasks)
    p_values = estimated.p_value()
    assert p_values.min() < 0.2 < 0.7 < p_values.max()
    for place, p_value in enumerate(p_values):
        low, high = estimated.interval(1 - p_value)
        assert min(abs(low[place]), abs(high[place])) == pytest.approx(0, abs=1e-9)


def test_an_average_over_tasks_is_welch_s_t_test() -> None:
    # Of the sum of two means, by Satterthwaite's degrees of freedom: variances 1 and 7 / 3.
    first, second = of_means([0, 0], [2, 2]), of_means([0, 2], [1, 3], [5, 7])
    both = average([first, second])
    assert both.values.tolist() == [2.0]
    freedom = (1 + 7 / 3) ** 2 / (1**2 / 1 + (7 / 3) ** 2 / 2)
    expected = stats.t.isf(0.025, freedom) * np.sqrt((1 + 7 / 3) / 4)
    assert half_width(both) == pytest.approx(expected)
    welch = stats.ttest_ind([0, 2], [-1, -2, -6], equal_var=False)
    assert freedom == pytest.approx(welch.df)
    assert both.p_value()[0] == pytest.approx(welch.pvalue)


def test_an_average_leaves_out_tasks_without_a_value() -> None:
    first = estimate(
        [
            SeedStatistic(weighted_mean(np.array([[seed, NAN], [seed + 2, NAN]])), np.arange(2))
            for seed in (0.0, 3.0)
        ]
    )
    second = estimate(
        [
            SeedStatistic(weighted_mean(np.array([[seed, seed], [seed, seed]])), np.arange(2))
            for seed in (1.0, 3.0)
        ]
    )
    both = average([first, second])
    assert both.values.tolist() == [2.25, 2.0]
    ends = zip(both.interval(0.95), second.interval(0.95), strict=True)
    for of_both, of_second in ends:
        assert of_both[1] == of_second[1]
    # A sum that passes the value that one task lacks keeps what else is known of both.
    reversed_sum = both.map(lambda values: np.cumsum(values[..., ::-1], -1))
    assert reversed_sum.interval(0.95)[0][0] == both.interval(0.95)[0][1]
    assert not np.isnan(reversed_sum.interval(0.95)).any()


def test_a_function_is_applied_to_what_is_left_without_each_seed() -> None:
    # Means 0 and 2: without each, 2 and 0, squared 4 and 0. Their squares around 2, 4 + 4, times
    # (2 - 1) / 2: 4. That is the squared derivative at 1, (2 · 1)², times the variance 1.
    squared = of_means([0, 0], [2, 2]).map(np.square)
    assert squared.values.tolist() == [1.0]
    assert half_width(squared) == pytest.approx(12.706205 * 2)


def test_a_function_is_applied_to_what_is_left_without_each_text() -> None:
    # Of 0, 3, 6: without each 4.5, 3, 1.5, squared 20.25, 9, 2.25, from 9 by -11.25, 0, 6.75;
    # times 2 / 3: 7.5, 0, 4.5. Their squares over 2 / 3: (56.25 + 20.25) · 3 / 2.
    squared = of_means([0, 3, 6]).map(np.square)
    assert half_width(squared) == pytest.approx(4.302653 * np.sqrt(76.5 * 1.5))


DATA_SETS = 500


def simulated(texts: Sequence[NDArray[np.int64]], seed_deviation: float) -> list[SeedStatistic]:
    """Means around 0 of normal values with variance 1 in a seed, half of it the text's.

    There is a statistic of [DATA_SETS] per seed.
    """
    random = np.random.default_rng(0)
    of_texts = random.normal(0, np.sqrt(0.5), (1 + max(of.max() for of in texts), DATA_SETS))
    values = [
        random.normal(0, seed_deviation, DATA_SETS)
        + of_texts[of]
        + random.normal(0, np.sqrt(0.5), (len(of), DATA_SETS))
        for of in texts
    ]
    return [SeedStatistic(weighted_mean(v), of) for v, of in zip(values, texts, strict=True)]


def coverage(means: Array, half: Array) -> float:
    return float(np.mean(np.abs(means) <= half))


@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("seed_deviation", [0.0, 0.6])
@pytest.mark.parametrize("shared", [0, 5, 10])
def test_intervals_cover_the_truth(seeds: int, seed_deviation: float, shared: int) -> None:
    """More in benchmarks/coverage.py."""
    own = np.arange(seeds * 10).reshape(seeds, 10) + 100
    own[:, :shared] = np.arange(shared)
    estimated = estimate(simulated(list(own), seed_deviation))
    low, high = estimated.interval(0.95)
    assert 0.92 <= coverage(estimated.values, (high - low) / 2) <= 0.995
