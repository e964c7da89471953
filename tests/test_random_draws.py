"""Random draws: one purpose never shifts another, and halves belong to texts."""

import polars as pl
import pytest

from anchorflow.random_draws import generator, halves


@pytest.mark.parametrize("seed", [0, 3])
def test_halves_are_even_and_belong_to_texts(seed: int) -> None:
    table = halves(pl.Series([4, 2, 2, 9, 4, 7]), seed)
    assert table["example"].to_list() == [2, 4, 7, 9]
    assert sorted(table["half"]) == [0, 0, 1, 1]


def test_a_share_of_texts_is_rounded_to_whole_ones() -> None:
    split = halves(pl.Series(range(10)), 0, 0.67)
    assert split["half"].value_counts().sort("half").rows() == [(0, 7), (1, 3)]
    assert split.equals(halves(pl.Series(range(10)), 0, 0.7))
    for share in (0.01, 0.99):
        assert set(halves(pl.Series(range(4)), 0, share)["half"]) == {0, 1}


def test_one_purpose_never_shifts_another() -> None:
    alone = generator(0, "reviews", "test texts").random(4).tolist()
    generator(0, "reviews", "fixed demonstrations").random(100)
    assert generator(0, "reviews", "test texts").random(4).tolist() == alone
    assert generator(0, "reviews", "fixed demonstrations").random(4).tolist() != alone
    assert generator(1, "reviews", "test texts").random(4).tolist() != alone
    assert generator(0, "reviews", "demonstrations", 1).random(4).tolist() != (
        generator(0, "reviews", "demonstrations", 2).random(4).tolist()
    )
