"""Orders and fresh draws of demonstrations: the same ones, as many of each label, no test text."""

from typing import cast

import polars as pl
import pytest

from anchorflow.analyses.orders.measure import arranged_samples, build_arranged
from anchorflow.prepare.prompts import PromptBuilder
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.samples import SAMPLES
from anchorflow.schemas.texts import TEXTS

TRAIN = [f"text {row}" for row in range(20)]  # of label 0 the even ones


def texts() -> pl.DataFrame:
    rows = [
        {"task": "news", "split": "train", "row": row, "text": text, "label": row % 2}
        for row, text in enumerate(TRAIN)
    ]
    return pl.DataFrame(rows, schema=frame_schema(TEXTS))


def kernel(seed: int = 0) -> pl.DataFrame:
    """Two test texts, of which the training split has one, with three demonstrations of label 0."""
    rows_shown = [4, 1, 8, 3, 12]
    shown = {
        "demonstration_rows": rows_shown,
        "demonstration_texts": [TRAIN[row] for row in rows_shown],
        "demonstration_labels": [row % 2 for row in rows_shown],
    }
    rows = [
        {"task": "news", "seed": seed, "demonstrations": "kernel", "example": example, "text": text}
        | {"label": 0, **shown}
        for example, text in enumerate(["new", "text 6"])
    ]
    return pl.DataFrame(rows, schema=frame_schema(SAMPLES))


def test_orders_have_the_same_demonstrations_and_the_first_is_the_kernels() -> None:
    arranged = arranged_samples(kernel(), texts(), 4)
    assert arranged.schema == frame_schema(SAMPLES)
    first = arranged.filter(demonstrations="order-0")
    assert first.drop("demonstrations").equals(kernel().drop("demonstrations"))
    orders = []
    for number in range(4):
        rows = arranged.filter(demonstrations=f"order-{number}")
        assert rows["example"].to_list() == [0, 1]
        assert rows["demonstration_rows"].n_unique() == 1
        row = rows.row(0, named=True)
        assert sorted(row["demonstration_rows"]) == [1, 3, 4, 8, 12]
        assert [TRAIN[k] for k in row["demonstration_rows"]] == row["demonstration_texts"]
        assert [k % 2 for k in row["demonstration_rows"]] == row["demonstration_labels"]
        orders.append(tuple(row["demonstration_rows"]))
    assert len(set(orders)) == 4


def test_draws_have_as_many_of_each_label_and_no_test_text() -> None:
    arranged = arranged_samples(kernel(), texts(), 8)
    drawn = [
        arranged.filter(demonstrations=f"draw-{number}").row(1, named=True) for number in range(8)
    ]
    for row in drawn:
        assert sorted(row["demonstration_labels"]) == [0, 0, 0, 1, 1]
        assert len(set(row["demonstration_rows"])) == 5
        assert 6 not in row["demonstration_rows"]
        assert [TRAIN[k] for k in row["demonstration_rows"]] == row["demonstration_texts"]
    assert len({tuple(sorted(row["demonstration_rows"])) for row in drawn}) > 4


def test_more_orders_leave_the_first_ones_as_they_are_and_seeds_differ() -> None:
    few, many = (arranged_samples(kernel(), texts(), count) for count in (2, 5))
    kept = few["demonstrations"].unique().implode()
    assert many.filter(pl.col("demonstrations").is_in(kept)).equals(few)
    other = arranged_samples(kernel(1), texts(), 2)
    assert other["demonstration_rows"].to_list() != few["demonstration_rows"].to_list()


class Builder:
    """Builds prompts of as many tokens as their demonstrations have characters, with a context."""

    labels = (" a", " b")

    def __init__(self, context: int) -> None:
        self._context = context

    def build(self, samples: pl.DataFrame) -> pl.DataFrame:
        tokens = pl.col("demonstration_texts").list.join("").str.len_chars()
        return samples.with_columns(
            tokens=tokens,
            context=self._context,
            skipped=pl.when(tokens > self._context).then(pl.lit("too long")),
        )


def test_all_have_fewer_demonstrations_where_the_longest_draw_exceeds_the_context(
    caplog: pytest.LogCaptureFixture,
) -> None:
    even = kernel().with_columns(
        demonstration_rows=pl.lit([4, 1, 8, 3], pl.List(pl.Int32)),
        demonstration_texts=pl.lit([TRAIN[row] for row in (4, 1, 8, 3)]),
        demonstration_labels=pl.lit([0, 1, 0, 1], pl.List(pl.Int32)),
    )
    # Four short texts have 24 characters; draws also have longer ones, of seven.
    for context, shown in ((24, 2), (28, 4)):
        built = build_arranged(even, texts(), 6, cast(PromptBuilder, Builder(context)))
        assert built["skipped"].null_count() == len(built)
        assert set(built["demonstration_rows"].list.len()) == {shown}
        assert ("1 demonstrations of each label instead of 2" in caplog.text) == (shown == 2)
        caplog.clear()
