"""Changes of accuracy in two parts, worked out by hand."""

from itertools import product

import polars as pl

from anchorflow.statistics.accuracy_change import CHANGES, GAINS, accuracy_changes

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
