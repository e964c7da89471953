"""Kernel regression by hand, and everything measured with many demonstrations from full prompts."""

from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from conftest import Checkout
from out_of_memory import limit
from polars.testing import assert_frame_equal
from transformers import DynamicCache

from anchorflow.kernel import correlations, kernel_estimates, kernel_predictions, measure_kernel
from anchorflow.segments import (
    PLACES,
    attention_by_place,
    segment_matrix,
    segment_widths,
    segments_of,
)
from anchorflow.tables import KERNEL, PROMPTS, STATES, frame_schema
from tiny_models import FAMILIES, plain_attentions, shared_prompts, single, tiny_model, whole_batch

OFFSETS = [-1, 0, 3]
SPANS = [(0, 10), (10, 20), (20, 30)]


class Decoder:
    """As much of a tokenizer as predictions need."""

    def decode(self, tokens: list[int], **_: Any) -> str:
        return str(tokens[0])


def test_estimates_are_the_labels_weighted_by_attention() -> None:
    weights = np.array([[0.2, 0.1, 0.1], [0.0, 0.0, 0.0], [0.1, 0.2, 0.3]])
    estimates = kernel_estimates(weights, [1, 0, 0], 3)
    np.testing.assert_allclose(estimates[0], [0.5, 0.5, 0])
    np.testing.assert_allclose(estimates[2], [5 / 6, 1 / 6, 0])
    assert kernel_predictions(estimates).tolist() == [0, -1, 0]


def test_correlations_are_pearsons_and_undefined_for_constant_weights() -> None:
    random = np.random.default_rng(0)
    weights, similarity = random.random((2, 4, 7)), random.random(7)
    found = correlations(weights, similarity)
    assert found[1, 2] == pytest.approx(np.corrcoef(weights[1, 2], similarity)[0, 1])
    assert np.isnan(correlations(np.full(7, 0.1), similarity))
    assert np.isnan(correlations(random.random(2), np.array([0.1, 0.2])))


def kernel_prompts(queries: list[int]) -> pl.DataFrame:
    return shared_prompts(queries).with_columns(demonstrations=pl.lit("kernel"))


def with_one_demonstration(prompts: pl.DataFrame) -> pl.DataFrame:
    """The same prompts without their last two demonstrations."""
    rows = prompts.to_dicts()
    for row in rows:
        row["token_ids"] = row["token_ids"][:10] + row["token_ids"][30:]
        for name in ("tokens", "target_position", "query_start"):
            row[name] -= 20
        for name in ("label_positions", "demonstration_starts", "demonstration_ends"):
            row[name] = row[name][:1]
        row["demonstration_labels"] = row["demonstration_labels"][:1]
    return pl.DataFrame(rows, schema=prompts.schema)


def each_alone(prompts: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The queries, and the demonstrations up to their label words, as prompts of their own."""
    rows = prompts.to_dicts()
    shared = rows[0]["token_ids"]
    texts = [(row["example"], row["token_ids"][30:]) for row in rows]
    shown = [(k, shared[start : end - 2]) for k, (start, end) in enumerate(SPANS)]

    def table(queries: list[tuple[int, list[int]]]) -> pl.DataFrame:
        names = ("label_positions", "demonstration_starts", "demonstration_ends")
        empty: dict[str, Any] = {name: [] for name in (*names, "demonstration_labels")}
        made = [
            {
                **rows[0],
                **empty,
                "demonstrations": "alone",
                "example": example,
                "tokens": len(tokens),
                "token_ids": tokens,
                "target_position": len(tokens) - 1,
                "query_start": 0,
            }
            for example, tokens in queries
        ]
        return pl.DataFrame(made, schema=frame_schema(PROMPTS))

    return table(texts), table(shown)


@pytest.mark.parametrize("family", FAMILIES)
def test_everything_equals_full_prompts_under_eager_attention(family: str) -> None:
    model, eager = tiny_model(family), tiny_model(family, eager=True)
    prompts = kernel_prompts([5, 17, 9])
    tests, demonstrations = each_alone(prompts)
    fewer = with_one_demonstration(prompts)
    tables = measure_kernel(
        model, Decoder(), prompts, {1: fewer}, (tests, demonstrations), OFFSETS, 20
    )
    assert tables.kernel.schema == frame_schema(KERNEL)
    matrix = segment_matrix(prompts.to_dicts(), 60)

    def next_token(token_ids: list[int]) -> np.ndarray:
        with torch.no_grad():
            logits = eager(torch.tensor([token_ids])).logits[0, -1]
        return logits.double().softmax(-1).numpy()

    shown = np.stack([next_token(ids) for ids in demonstrations["token_ids"].to_list()])
    full = whole_batch(prompts)
    for row, example in enumerate(full.examples):
        logits, attentions = plain_attentions(eager, single(full, row))
        to_all = attentions[:, :, -1].double().numpy()  # [L, H, T]
        largest = np.stack([to_all[:, :, a:b].max(-1) for a, b in SPANS], -1)
        weights = {
            "max": largest,
            "label": to_all[:, :, [8, 18, 28]],
            "mean": np.stack([to_all[:, :, a:b].mean(-1) for a, b in SPANS], -1),
        }
        mine = pl.col("example") == example
        probabilities = tables.predictions.filter(mine)["probabilities"][0].to_list()
        np.testing.assert_allclose(
            probabilities, logits[[5, 11, 23]].softmax(-1).numpy(), rtol=1e-4
        )
        similarity = shown @ next_token(tests.filter(mine)["token_ids"][0].to_list())
        np.testing.assert_allclose(
            tables.similarity.filter(mine)["similarity"].to_numpy(), similarity, rtol=1e-4
        )
        for kind, of_kind in weights.items():
            shown_to = tables.attention.filter(mine)[f"attention_{kind}"].explode().to_numpy()
            np.testing.assert_allclose(shown_to, of_kind.ravel(), rtol=1e-4, atol=1e-7)
            told = tables.kernel.filter(mine, pl.col("weights") == kind)
            np.testing.assert_allclose(
                told["correlation"].fill_null(np.nan).to_numpy().reshape(of_kind.shape[:2]),
                correlations(of_kind, similarity),
                atol=1e-3,  # differences between three numbers, some of them small
            )
            sums = kernel_estimates(of_kind, [0, 1, 2], 3)
            unseen = np.isnan(sums).any(-1)  # behind the sliding window
            clear = np.sort(sums, -1)[..., -1] - np.sort(sums, -1)[..., -2] > 1e-4
            predicted = told["prediction"].fill_null(-1).to_numpy().reshape(sums.shape[:2])
            assert (predicted[clear] == sums.argmax(-1)[clear]).all()
            assert (predicted[unseen] == -1).all()
            assert (clear | unseen).mean() > 0.8
        token = [[a + (2 * place + 1) * 10 // 40 for place in range(PLACES)] for a, _ in SPANS]
        along = np.mean([to_all.mean(1)[:, tokens] for tokens in token], 0)
        placed = tables.places.filter(mine)["attention"].to_numpy()
        np.testing.assert_allclose(placed, along.ravel(), rtol=1e-4, atol=1e-7)
        landed = tables.segments.filter(mine)["attention"].to_numpy()
        plain = np.einsum("lht,st->lhs", to_all, matrix[example, :, : to_all.shape[-1]])
        np.testing.assert_allclose(landed, plain.ravel(), rtol=1e-4, atol=1e-7)
        of_fewer = next_token(fewer.filter(mine)["token_ids"][0].to_list())[[5, 11, 23]]
        counted = tables.counts.filter(mine, pl.col("demonstrations_per_label") == 1)
        np.testing.assert_allclose(
            counted["probabilities"][0].to_list(), of_fewer / of_fewer.sum(), rtol=1e-4
        )

    cache = DynamicCache()
    with torch.no_grad():
        eager(torch.tensor([prompts["token_ids"][0].to_list()]), past_key_values=cache)
    at = [position + offset for position in (8, 18, 28) for offset in OFFSETS]
    at = [position for position in at if position < 30]  # after that, prompts differ
    for layer, kept in enumerate(cache.layers):
        ours = tables.states.filter(pl.col("layer") == layer)
        for name, plain_states in (("key", kept.keys), ("value", kept.values)):
            np.testing.assert_allclose(
                np.array(ours[name].to_list()),
                plain_states[0, :, at].flatten(0, 1).numpy(),
                rtol=1e-4,
                atol=1e-5,
            )
    assert tables.states["next_token"].unique().to_list() == sorted(set(shown.argmax(-1).tolist()))


def test_running_out_of_memory_changes_no_table() -> None:
    model, prompts = tiny_model("llama"), kernel_prompts([5, 17, 9])
    fewer, alone = with_one_demonstration(prompts), each_alone(prompts)
    plain = measure_kernel(model, Decoder(), prompts, {1: fewer}, alone, OFFSETS, 1000)
    failed = limit(model, 40)
    ours = measure_kernel(model, Decoder(), prompts, {1: fewer}, alone, OFFSETS, 1000)
    assert failed
    for table, expected in zip(ours, plain, strict=True):
        assert expected.height > 0
        assert_frame_equal(table, expected, rel_tol=1e-4, abs_tol=1e-6)


def test_prompts_that_are_all_too_long_leave_empty_tables() -> None:
    prompts = kernel_prompts([5, 6])
    tables = measure_kernel(
        tiny_model("llama"),
        Decoder(),
        prompts.with_columns(skipped=pl.lit("too long")),
        {},
        each_alone(prompts),
        OFFSETS,
        50,
    )
    assert tables.states.schema == frame_schema(STATES)
    assert [len(table) for table in tables] == [0] * 8


def test_offsets_that_lie_outside_leave_no_states() -> None:
    prompts = kernel_prompts([5, 6])
    tables = measure_kernel(
        tiny_model("llama"), Decoder(), prompts, {}, each_alone(prompts), [20], 50
    )
    at = tables.states.select("demonstration", "offset").unique()
    assert at.rows() == [(0, 20)]  # 8 + 20 is shared, 18 + 20 is not
    gone = measure_kernel(
        tiny_model("llama"), Decoder(), prompts, {}, each_alone(prompts), [-29], 50
    )
    assert gone.states.schema == frame_schema(STATES)
    assert gone.states.is_empty()


def test_widths_are_averaged_over_demonstrations() -> None:
    prompt = {
        "format_positions": [0, 3, 6, 8],
        "demonstration_starts": [0, 4],
        "label_positions": [2, 7],
        "demonstration_ends": [4, 9],
    }
    # Tokens: start, text, label, after; and text, text, middle, label, after.
    expected = [(1 / 4 + 0) / 2, (1 / 4 + 2 / 5) / 2, (0 + 1 / 5) / 2, (1 / 4 + 1 / 5) / 2]
    widths = segment_widths([prompt])[0]
    np.testing.assert_allclose(widths, [*expected, (1 / 4 + 1 / 5) / 2])


def test_segments_follow_the_template_the_text_and_the_label_word() -> None:
    prompt = {
        "format_positions": [0, 1, 4, 5, 8, 9, 11, 12],
        "demonstration_starts": [1, 9],
        "label_positions": [6, 10],
        "demonstration_ends": [9, 12],
    }
    placed = segments_of(prompt)
    assert placed[:8] == [(1, 0), (2, 1), (3, 1), (4, 2), (5, 2), (6, 3), (7, 3), (8, 4)]
    assert placed[8:] == [(9, 0), (10, 3), (11, 4)]  # an empty text


def test_a_template_word_inside_a_text_belongs_to_the_text() -> None:
    prompt = {
        "format_positions": [0, 2, 4, 6],
        "demonstration_starts": [0],
        "label_positions": [5],
        "demonstration_ends": [7],
    }
    assert [segment for _, segment in segments_of(prompt)] == [0, 1, 1, 1, 2, 3, 4]


def test_demonstrations_of_unequal_length_are_averaged_place_by_place() -> None:
    rows = torch.arange(30.0).reshape(1, 1, 1, 30)
    starts, ends = torch.tensor([[0, 10]]), torch.tensor([[10, 30]])
    places = attention_by_place(rows, starts, ends)[0, 0, 0]
    assert len(places) == PLACES
    first = [number * 10 // PLACES for number in range(PLACES)]  # half a token each
    second = [10 + number * 20 // PLACES for number in range(PLACES)]
    torch.testing.assert_close(places, (torch.tensor(first) + torch.tensor(second)) / 2)


def test_artifacts_hold_what_they_should(finished_run: Checkout) -> None:
    folder = finished_run.folder / "results/kernel/tiny/news/0"
    prompts = pl.read_parquet(folder / "prompts.parquet")
    labels = prompts["demonstration_labels"][0].to_list()
    assert len(labels) % 4 == 0
    assert all(sorted(labels[k : k + 4]) == [0, 1, 2, 3] for k in range(0, len(labels), 4))
    assert prompts["query_start"].unique().len() == 1
    kernel = pl.read_parquet(folder / "kernel.parquet")
    assert len(kernel) == 6 * 3 * 4 * 3  # examples, layers, heads, weights
    counts = pl.read_parquet(folder / "counts.parquet")
    powers = [2**k for k in range(9) if 2**k < len(labels) // 4]
    assert counts["demonstrations_per_label"].unique().sort().to_list() == powers
