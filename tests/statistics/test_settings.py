"""Estimates by setting: draws within seeds, and settings that only some examples have."""

import numpy as np
import polars as pl
import pytest

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
