"""Predictions and heads' kernel regressions in every order, against eager full prompts."""

import logging

import numpy as np
import polars as pl
import pytest
import torch

from anchorflow.analyses.kernel.measure import kernel_estimates
from anchorflow.analyses.orders import ORDERS, check
from anchorflow.analyses.orders.measure import cost, measure_orders
from anchorflow.config.errors import InputError
from anchorflow.model.size import Cost, Prompts
from anchorflow.schemas.frames import frame_schema
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
