"""Calibration: by hand, and that perfectly calibrated answers have no excess on average."""

import numpy as np
import polars as pl
import pytest

from anchorflow.analyses.accuracy.calibration import calibration_of_gaps, gaps, preference
from anchorflow.statistics.by_task import texts_of
from anchorflow.statistics.estimates import Estimate, SeedStatistic, estimate


def answers(confidence: list[float], right: list[bool], first: int = 0) -> pl.DataFrame:
    """Answers to texts of the label 0, with the probability of the predicted one of two labels."""
    rows = [
        {"example": first + text, "label": 0, "prediction": int(not is_right)}
        | {"probabilities": [p, 1 - p] if is_right else [1 - p, p]}
        for text, (p, is_right) in enumerate(zip(confidence, right, strict=True))
    ]
    return pl.DataFrame(rows)


def of_seeds(*seeds: pl.DataFrame) -> Estimate:
    return estimate([SeedStatistic(gaps(rows), texts_of(rows)) for rows in seeds]).map(
        calibration_of_gaps
    )


def test_errors_of_bins_are_averaged_over_texts_and_seeds_before_they_lose_their_sign() -> None:
    # The first seed: (1 + 1/2)/4 too little in the bin from .5, (.9 - 0)/4 too much in the last.
    first = answers([0.5, 0.5, 0.9, 0.95], [True, True, False, True])
    assert of_seeds(first).values[0] == pytest.approx((1 + 0.9 - 0.05) / 4)
    # A second one, wrong at .5, compensates for it in this bin.
    second = answers([0.5, 0.5], [False, False], first=9)
    assert of_seeds(first, second).values[0] == pytest.approx((0.9 - 0.05) / 4 / 2 + 0.25 / 2)
    certain = of_seeds(answers([1.0, 1.0], [True, False]))
    np.testing.assert_allclose(certain.values, [0.5, 0.5])  # nothing of it by chance


def test_answers_as_right_as_they_are_confident_have_an_error_on_few_texts_but_no_excess() -> None:
    random = np.random.default_rng(0)
    found = []
    for run in range(60):
        confidence = random.uniform(0.5, 1, (2, 12))
        right = random.random((2, 12)) < confidence
        each = [
            answers(p.tolist(), r.tolist(), 1000 * run + 100 * seed)
            for seed, (p, r) in enumerate(zip(confidence, right, strict=True))
        ]
        estimated = of_seeds(*each)
        low, high = estimated.interval(0.95)
        found.append([*estimated.values, low[1] <= 0 <= high[1]])
    error, excess, covered = np.mean(found, 0)
    assert error > 0.1
    assert abs(excess) < 3 * np.std([each[1] for each in found]) / 60**0.5
    assert covered >= 0.9


def test_a_preference_is_0_for_equal_and_1_for_single_labels() -> None:
    assert preference(np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]])) == pytest.approx(0.5)
    assert preference(np.full((3, 4), 0.25)) == pytest.approx(0)
    assert preference(np.array([[0.0, 1.0]])) == 1
