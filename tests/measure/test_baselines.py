"""Contextual calibration by hand, and logistic regression on attention."""

import numpy as np
import pytest

from anchorflow.config import registry
from anchorflow.measure.baselines import FOLDER, Observed, baseline
from anchorflow.measure.baselines.attention_regression import attention_regression
from anchorflow.measure.baselines.calibrated import calibrated


def test_calibration_divides_by_the_mean_without_content() -> None:
    probabilities = np.array([[0.6, 0.4], [0.9, 0.1]])
    content_free = np.array([[0.9, 0.1], [0.7, 0.3]])  # mean 0.8, 0.2
    expected = [[0.75 / 2.75, 2 / 2.75], [1.125 / 1.625, 0.5 / 1.625]]
    np.testing.assert_allclose(calibrated(probabilities, content_free), expected)


def test_calibration_answers_evenly_where_the_input_says_no_more_than_none() -> None:
    content_free = np.array([[0.7, 0.2, 0.1]])
    np.testing.assert_allclose(calibrated(content_free, content_free), np.full((1, 3), 1 / 3))


def test_regression_finds_the_head_that_attends_to_the_right_label_word() -> None:
    random = np.random.default_rng(0)
    labels = np.tile([0, 1, 2], 30)
    features = random.uniform(0, 1e-4, (90, 30))  # attention is small
    features[np.arange(90), 10 + labels] += 3e-4
    predict = attention_regression(features[:60], labels[:60])
    probabilities = predict(features[60:])
    np.testing.assert_allclose(probabilities.sum(1), 1)
    assert probabilities.argmax(1).tolist() == labels[60:].tolist()


def test_regression_bears_attention_that_is_always_zero() -> None:
    features = np.array([[0.0, 0.1], [0.0, 0.2], [0.0, 0.1], [0.0, 0.2]])
    predict = attention_regression(features, np.array([0, 1, 0, 1]))
    assert predict(np.array([[0.0, 0.1]])).argmax() == 0


@pytest.mark.parametrize("name", registry.entries(FOLDER))
def test_every_baseline_says_what_it_is_and_answers_with_probabilities(name: str) -> None:
    assert registry.summary_of(FOLDER, name).endswith(".")
    assert name not in ("vanilla", "many", "reweighted")
    assert not name.startswith("reweighted_")
    random = np.random.default_rng(0)
    labels = np.tile([0, 1, 2], 4)
    content_free, vanilla = random.dirichlet(np.ones(3), 3), random.dirichlet(np.ones(3), 5)
    observed = Observed(content_free, random.uniform(0, 1, (12, 8)), labels)
    answers = baseline(name)(observed)(vanilla, random.uniform(0, 1, (5, 8)))
    assert answers.shape == (5, 3)
    np.testing.assert_allclose(answers.sum(1), 1)


def test_baselines_take_their_part_of_what_is_observed() -> None:
    random = np.random.default_rng(0)
    labels = np.array([0, 1, 0, 1])
    observed = Observed(random.dirichlet([1, 1], 3), random.uniform(0, 1, (4, 6)), labels)
    vanilla, attention = random.dirichlet([1, 1], 5), random.uniform(0, 1, (5, 6))
    np.testing.assert_array_equal(
        baseline("calibrated")(observed)(vanilla, attention),
        calibrated(vanilla, observed.content_free),
    )
    np.testing.assert_array_equal(
        baseline("attention_regression")(observed)(vanilla, attention),
        attention_regression(observed.features, labels)(attention),
    )
