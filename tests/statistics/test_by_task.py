"""Intervals of summaries by hand: few seeds, shared texts, tasks together, ends of shares."""

from collections.abc import Mapping

import polars as pl
import pytest

from anchorflow.config.table import CORRELATION, SHARE, SIZE
from anchorflow.statistics.by_task import AVERAGE, mean_by_task, summary_rows

# Quantiles of Student's t at .975, with 1 and 2 degrees of freedom, from printed tables.
T_1, T_2 = 12.706205, 4.302653
THREE_SEEDS = {0: {0: 1.0}, 1: {1: 2.0}, 2: {2: 6.0}}  # of one text each

Task = Mapping[int, Mapping[int, float]]  # values by seed and text


def measured(tasks: Mapping[str, Task]) -> pl.DataFrame:
    """The values, in an order of rows that no summary may rely on."""
    rows = [
        ("tiny", task, seed, text, value)
        for task, seeds in tasks.items()
        for seed, texts in seeds.items()
        for text, value in texts.items()
    ]
    columns = ["model", "task", "seed", "example", "value"]
    return pl.DataFrame(rows[::-1], schema=columns, orient="row")


def summarized(
    tasks: Mapping[str, Task],
    bounds: tuple[float, float] | None = None,
    empty: tuple[str, ...] = (),
) -> dict[str, dict]:
    """Summary rows by task of one measure, at a confidence of .95."""
    of_measure = {"measured": bounds} if bounds else None
    table = measured(tasks)
    estimates = mean_by_task(
        table, [*tasks, *empty], lambda rows: rows.sort("example").select("value").to_numpy(), 1
    )
    keys = pl.DataFrame({"measure": ["measured"]})
    rows = summary_rows(estimates, keys, table, 0.95, of_measure)
    return {row["task"]: row for row in rows.iter_rows(named=True)}


def ends(row: dict) -> list[float]:
    return [row["low"], row["high"]]


def around(mean: float, half: float) -> object:
    return pytest.approx([mean - half, mean + half], rel=1e-6)


def test_three_seeds_have_the_interval_of_student_s_t_on_their_means() -> None:
    # The mean of 1, 2, and 6 is 3; deviations -2, -1, 3; s² = 14 / 2.
    row = summarized({"news": THREE_SEEDS})["news"]
    assert row["mean"] == 3
    assert ends(row) == around(3, T_2 * (7 / 3) ** 0.5)
    assert (row["examples"], row["texts"], row["seeds"]) == (3, 3, 3)


def test_texts_that_seeds_share_add_the_covariance_of_the_seeds_means() -> None:
    # Means 2 and 4, so s² / 2 = 1. Deviations (-1, 1) and (-2, 2): covariance 4, of means 4 / 2.
    shared = summarized({"news": {0: {4: 1.0, 8: 3.0}, 1: {4: 2.0, 8: 6.0}}})["news"]
    assert shared["mean"] == 3
    assert ends(shared) == around(3, T_1 * (1 + 2) ** 0.5)
    assert (shared["examples"], shared["texts"]) == (4, 2)
    own = summarized({"news": {0: {4: 1.0, 8: 3.0}, 1: {5: 2.0, 9: 6.0}}})["news"]
    assert ends(own) == around(3, T_1)


def test_texts_are_the_same_by_their_row_and_not_by_their_place() -> None:
    # Now what is low in one seed is high in the other, so sharing texts adds nothing.
    turned = summarized({"news": {0: {4: 1.0, 8: 3.0}, 1: {8: 2.0, 4: 6.0}}})["news"]
    assert ends(turned) == around(3, T_1)
    # One of two texts is shared; the second seed's others are new.
    half = summarized({"news": {0: {4: 1.0, 8: 3.0}, 1: {8: 6.0, 9: 2.0}}})["news"]
    assert half["low"] < 3 - 1.1 * T_1


def test_the_average_adds_variances_and_combines_degrees_of_freedom() -> None:
    two_seeds = {0: {0: 1.0}, 1: {1: 3.0}}  # mean 2, s² / 2 = 1
    rows = summarized({"news": THREE_SEEDS, "reviews": two_seeds})
    assert ends(rows["reviews"]) == around(2, T_1)
    # (7/3 + 1) / 4 with (7/3 + 1)² / ((7/3)² / 2 + 1² / 1) = 2.985 degrees of freedom: t is 3.1915.
    assert rows[AVERAGE]["mean"] == 2.5
    assert ends(rows[AVERAGE]) == pytest.approx([2.5 - 2.91344, 2.5 + 2.91344], abs=1e-4)
    assert (rows[AVERAGE]["examples"], rows[AVERAGE]["seeds"]) == (5, 3)


def test_the_average_leaves_out_tasks_without_rows() -> None:
    rows = summarized({"news": THREE_SEEDS}, empty=("poems",))
    assert [rows["poems"][name] for name in ("mean", "low", "high")] == [None, None, None]
    assert (rows["poems"]["examples"], rows["poems"]["seeds"]) == (0, 0)
    for name in ("mean", "low", "high"):
        assert rows[AVERAGE][name] == pytest.approx(rows["news"][name])


def test_a_task_with_a_value_in_one_seed_of_two_has_no_interval() -> None:
    rows = summarized({"news": {0: {0: 1.0, 1: 2.0}, 1: {2: float("nan")}}, "reviews": THREE_SEEDS})
    assert rows["news"]["mean"] == 1.5
    assert ends(rows["news"]) == [None, None]
    assert rows[AVERAGE]["mean"] == 2.25
    assert ends(rows[AVERAGE]) == [None, None]
    assert ends(rows["reviews"]) == around(3, T_2 * (7 / 3) ** 0.5)


def test_intervals_end_where_what_they_are_of_does() -> None:
    # Means .5, .75, and 1: mean .75, s = .25.
    seeds = {0: {0: 0.5}, 1: {1: 0.75}, 2: {2: 1.0}}
    half = T_2 * 0.25 / 3**0.5
    row = summarized({"news": seeds}, SHARE)["news"]
    assert ends(row) == pytest.approx([0.75 - half, 1.0], rel=1e-6)
    for bounds in (None, SIZE):
        assert ends(summarized({"news": seeds}, bounds)["news"]) == around(0.75, half)
    low = {0: {0: 0.0}, 1: {1: 0.25}, 2: {2: 0.5}}
    for bounds in (SHARE, SIZE):
        assert ends(summarized({"news": low}, bounds)["news"]) == pytest.approx([0, 0.25 + half])
    opposite = {0: {0: -0.5}, 1: {1: -0.75}, 2: {2: -1.0}}
    above, below = (summarized({"news": each}, CORRELATION)["news"] for each in (seeds, opposite))
    assert ends(above) == pytest.approx([0.75 - half, 1.0], rel=1e-6)
    assert ends(below) == pytest.approx([-1.0, half - 0.75], rel=1e-6)
