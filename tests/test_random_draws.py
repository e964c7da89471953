"""Random draws: one purpose never shifts another, and halves belong to texts."""

import polars as pl
import pytest

from anchorflow.random_draws import drawn_texts, generator, halves


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


def cell(task: str, seed: int, examples: range) -> pl.DataFrame:
    return pl.DataFrame({"task": task, "seed": seed, "example": examples})


def test_fewer_texts_are_among_more_and_the_same_for_all_label_words() -> None:
    rows = pl.concat([cell(task, 0, range(40)) for task in ("news", "news+symbols")])
    some = {n: drawn_texts(rows, n) for n in (3, 10)}
    own, other = (some[10].filter(task=task)["example"] for task in ("news", "news+symbols"))
    assert own.to_list() == other.to_list() == sorted(own)
    assert len(own) == 10
    assert set(some[3].filter(task="news")["example"]) < set(own)
    assert drawn_texts(rows, None).equals(rows)
    assert drawn_texts(rows, 99).equals(rows)


def test_a_draw_takes_no_side_in_the_order_of_the_file() -> None:
    """Files are often sorted by label, so that the first texts would have one label."""
    drawn = pl.concat([drawn_texts(cell("news", seed, range(100)), 4) for seed in range(50)])
    assert drawn.group_by("seed").len()["len"].to_list() == [4] * 50
    assert abs(drawn["example"].mean() - 49.5) < 3 * 28.9 / 200**0.5  # three standard errors
    assert drawn["example"].n_unique() > 80  # 87 of 100 are expected in 200 draws


def test_a_draw_keeps_all_rows_of_its_texts() -> None:
    rows = pl.concat([cell("news", 0, range(6))] * 2).with_columns(
        demonstrations=pl.Series(["fixed"] * 6 + ["per_example"] * 6)
    )
    drawn = drawn_texts(rows, 2)
    kinds = ("fixed", "per_example")
    fixed, own = (drawn.filter(demonstrations=kind)["example"].to_list() for kind in kinds)
    assert fixed == own
    assert len(fixed) == 2
