"""Contextual calibration by hand, and logistic regression on attention."""

import numpy as np

from anchorflow.baselines import attention_regression, calibrated


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
