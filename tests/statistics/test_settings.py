"""Estimates by setting, changes of accuracy in two parts, and what is retained, by hand."""

from itertools import product
from math import log

import numpy as np
import polars as pl
import pytest

from anchorflow.statistics.change import (
    CHANGES,
    GAINS,
    accuracy_changes,
    jensen_shannon,
    with_loyalty,
)
from anchorflow.statistics.settings import estimate_settings


def drawn(values: dict[tuple[str, int, int], list[float]]) -> pl.DataFrame:
    """One measure of every (setting, seed, example) by draw, in an order that does not matter."""
    rows = [
        (setting, seed, example, draw, value)
        for (setting, seed, example), draws in values.items()
        for draw, value in enumerate(draws)
    ]
    columns = ["setting", "seed", "example", "draw", "m"]
    return pl.DataFrame(rows[::-1], schema=columns, orient="row")


def test_draws_are_averaged_within_their_seed_and_vary_with_it() -> None:
    measured = drawn({("a", 0, 3): [0.0, 2.0], ("a", 1, 4): [1.0, 3.0], ("a", 2, 5): [6.0, 6.0]})
    found = estimate_settings(measured, pl.DataFrame({"setting": ["a"]}), ["m"])
    # 1, 2, and 6: s² = 7; t at .975 with 2 degrees of freedom is 4.302653.
    low, high = found.interval(0.95)
    half = 4.302653 * (7 / 3) ** 0.5
    np.testing.assert_allclose([found.values, low, high], [[3], [3 - half], [3 + half]], rtol=1e-6)


def test_a_setting_is_averaged_over_the_seeds_and_examples_that_have_it() -> None:
    measured = drawn(
        {
            ("a", 0, 3): [1.0],
            ("b", 0, 3): [4.0, 6.0],
            ("a", 0, 8): [3.0],
            ("a", 1, 4): [6.0],
            (None, 1, 4): [7.0],
        }
    )
    settings = pl.DataFrame({"setting": ["b", "a", None, "c"]})
    found = estimate_settings(measured, settings, ["m"])
    np.testing.assert_array_equal(found.values, [5.0, 4.0, 7.0, np.nan])
    low, high = found.interval(0.95)
    assert np.isnan(low).tolist() == np.isnan(high).tolist() == [True, False, True, True]
    assert high[1] == pytest.approx(4 + 2 * 12.706205)  # of seeds' means 2 and 6


# Correct before and after; the likeliest token begins a label word before and after.
CASES = list(product([True, False], repeat=4))


def changed(names: tuple[str, ...]) -> pl.DataFrame:
    rows = [(1, int(before), int(after), *inside) for before, after, *inside in CASES]
    columns = ["label", "before", "prediction", "was_in_labels", "in_labels"]
    table = pl.DataFrame(rows, schema=columns, orient="row")
    return table.select(**accuracy_changes(names, "before", "was_in_labels"))


def test_a_change_where_label_words_are_no_longer_the_likeliest_is_a_loss_of_the_task() -> None:
    for case, row in zip(CASES, changed(CHANGES).rows(), strict=True):
        before, after, was_inside, inside = case
        change = after - before
        assert row == ((change, change, 0) if was_inside and not inside else (change, 0, change))


def test_the_two_parts_add_up_and_neither_is_always_0() -> None:
    table = changed(GAINS)
    assert table.columns == list(GAINS)
    assert (table[GAINS[1]] + table[GAINS[2]]).to_list() == table[GAINS[0]].to_list()
    assert [table[name].abs().sum() for name in GAINS] == [8, 2, 6]


def test_without_the_whole_vocabulary_there_are_no_parts() -> None:
    row = pl.DataFrame(
        {"label": [1], "before": [0], "prediction": [1], "was_in_labels": [False]}
    ).with_columns(in_labels=pl.lit(None, pl.Boolean))
    parts = row.select(**accuracy_changes(CHANGES, "before", "was_in_labels"))
    assert parts.row(0) == (1, None, None)


def test_what_is_retained_is_the_divergence_as_a_share_of_that_without_demonstrations() -> None:
    keys = {"label": 0, "prediction": 0, "in_labels": True, "top_tokens": [1]}

    def run(*probabilities: list[float]) -> pl.DataFrame:
        rows = [
            {"seed": 0, "example": n, **keys, "probabilities": p}
            for n, p in enumerate(probabilities)
        ]
        return pl.DataFrame(rows)

    # From certain answers to opposite ones, D is ln 2; to (1/2, 1/2), each half of the divergences
    # from the mean (3/4, 1/4).
    certain, opposite, even = [1.0, 0.0], [0.0, 1.0], [0.5, 0.5]
    half = log(4 / 3) / 2 + log(2 / 3) / 4 + log(2) / 4
    found = jensen_shannon(np.array([certain, certain]), np.array([opposite, even]))
    assert found.tolist() == pytest.approx([log(2), half])
    measured = with_loyalty(run(even, certain), run(certain, certain), run(opposite, opposite))
    assert measured["label_loyalty"].to_list() == [1, 1]  # the answer stays
    settings = measured.with_columns(setting=pl.lit("a"))
    estimate = estimate_settings(settings, pl.DataFrame({"setting": ["a"]}), ["retained"])
    assert estimate.values == pytest.approx([1 - half / (2 * log(2))])
    without = with_loyalty(run(even), run(certain), run(even).clear())
    assert without["retained"].to_list() == [None]
