"""Orders and fresh draws of demonstrations, and predictions against eager full prompts."""

import logging
from typing import cast

import numpy as np
import polars as pl
import pytest
import torch

from anchorflow.analyses.kernel.measure import kernel_estimates
from anchorflow.analyses.orders import ORDERS, check
from anchorflow.analyses.orders.measure import (
    arranged_samples,
    build_arranged,
    cost,
    measure_orders,
)
from anchorflow.config.errors import InputError
from anchorflow.model.size import Cost, Prompts
from anchorflow.prepare.prompts import PromptBuilder
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.samples import SAMPLES
from anchorflow.schemas.texts import TEXTS
from tiny_models import plain_attentions, shared_prompts, single, tiny_model, whole_batch
from worded_prompts import alike_prompts, apart

SPANS = [(1, 10), (10, 20), (20, 30)]  # without the prompt's first token
TURNED = [*range(20, 30), *range(10, 20), *range(10)]


def arranged() -> pl.DataFrame:
    """Prompts with three demonstrations, and with the first and the last of them exchanged."""
    first = shared_prompts([5, 17, 9])
    turned = first.with_columns(
        token_ids=pl.Series(
            [[ids[k] for k in TURNED] + ids[30:] for ids in first["token_ids"].to_list()],
            dtype=first.schema["token_ids"],
        ),
        demonstration_labels=pl.col("demonstration_labels").list.reverse(),
    )
    named = [(first, "order-0"), (turned, "order-1"), (turned, "draw-0")]
    return pl.concat(rows.with_columns(demonstrations=pl.lit(name)) for rows, name in named)


@pytest.mark.parametrize("family", ["gpt2", "llama", "gemma3"])
def test_every_arrangement_equals_full_prompts_under_eager_attention(family: str) -> None:
    prompts = arranged()
    measured = measure_orders(tiny_model(family), prompts, 20)
    assert measured.schema == frame_schema(ORDERS)
    assert measured.select("arrangement", "number").unique(maintain_order=True).rows() == [
        ("order", 0),
        ("order", 1),
        ("draw", 0),
    ]
    eager = tiny_model(family, eager=True)
    for name in ("order-0", "order-1", "draw-0"):
        full = whole_batch(prompts.filter(demonstrations=name))
        arrangement, _, number = name.partition("-")
        mine = measured.filter(arrangement=arrangement, number=int(number))
        for place, example in enumerate(full.examples):
            logits, attentions = plain_attentions(eager, single(full, place))
            row = mine.row(by_predicate=pl.col("example") == example, named=True)
            plain = logits[full.label_tokens].softmax(-1)
            torch.testing.assert_close(torch.tensor(row["probabilities"]), plain, rtol=0, atol=1e-4)
            to_all = attentions[:, :, -1].double().numpy()
            largest = np.stack([to_all[:, :, a:b].max(-1) for a, b in SPANS], -1)
            labels = full.demonstration_labels[place].tolist()
            sums = kernel_estimates(largest, labels, 3).reshape(-1, 3)
            told = np.array([-1 if label is None else label for label in row["heads"]])
            clear = np.sort(sums, -1)[:, -1] - np.sort(sums, -1)[:, -2] > 1e-4  # False where NaN
            assert (told[clear] == sums.argmax(-1)[clear]).all()
            unseen = np.isnan(sums).any(-1)
            assert (told[unseen] == -1).all()
            assert (clear | unseen).mean() > 0.8
    turned = measured.filter(arrangement="order", number=1)
    assert turned["probabilities"].to_list() != measured[:3]["probabilities"].to_list()


def test_a_shard_has_the_rows_of_its_texts_and_long_prompts_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model, prompts = tiny_model("llama"), arranged()
    whole, part = measure_orders(model, prompts, 200), measure_orders(model, prompts, 200, [1])
    columns = ["arrangement", "number", "example", "prediction", "heads"]
    assert part.select(columns).equals(whole.filter(example=1).select(columns))
    long = prompts.with_columns(
        skipped=pl.when(demonstrations="draw-0", example=2).then(pl.lit("too long"))
    )
    with caplog.at_level(logging.WARNING):
        measured = measure_orders(model, long, 200)
    assert len(measured) == len(whole) - 1
    assert "1 of 9 prompts of orders and draws are skipped; the first one: too long" in caplog.text
    none = measure_orders(model, prompts.with_columns(skipped=pl.lit("too long")), 200)
    assert none.schema == frame_schema(ORDERS)
    assert none.is_empty()


def test_texts_are_run_once_for_everything_that_is_varied() -> None:
    assert cost(Prompts(10, 40, 10, 1), {"count": 3}, 3) == Cost(6 * 140)


def test_labels_that_share_their_first_token_are_taken_together() -> None:
    model = tiny_model("llama")
    table = alike_prompts().with_columns(demonstrations=pl.lit("order-0"))
    answers = [measure_orders(model, each, 100) for each in (table, apart(table))]
    assert answers[0].drop("probabilities").equals(answers[1].drop("probabilities"))
    assert answers[0]["label"].to_list() == [0, 1, 1]


def test_orders_are_none_or_several() -> None:
    with pytest.raises(InputError, match=r"orders.count: a single order .*; give 2 or more, or 0"):
        check({"orders": {"count": 1}})
    check({"orders": {"count": 0}})
    check({"orders": {"count": 2}})


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
