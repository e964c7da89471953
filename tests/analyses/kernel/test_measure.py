"""Kernel regression by hand, and everything measured with many demonstrations from full prompts."""

import numpy as np
import polars as pl
import pytest
import torch
from transformers import DynamicCache

from anchorflow.analyses.kernel import KERNEL, STATES
from anchorflow.analyses.kernel.measure import (
    correlations,
    cost,
    kernel_estimates,
    kernel_predictions,
    measure_kernel,
)
from anchorflow.analyses.kernel.segments import PLACES, segment_matrix
from anchorflow.model.layer_kinds import attention_layers, runs_again
from anchorflow.model.size import Cost, Prompts
from anchorflow.random_draws import generator
from anchorflow.schemas.fields import SINK
from anchorflow.schemas.frames import frame_schema
from kernel_prompts import SPANS, each_alone, kernel_prompts, with_first
from stub_tokenizers import Decoder
from tiny_models import EVERY_FAMILY, plain_attentions, single, tiny_model, whole_batch
from worded_prompts import with_words

OFFSETS = [-1, 0, 3]
WORDS = [(7, 9), (18, 19), (26, 29)]  # tokens of the label words


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


def permuted(example: int, labels: list[int]) -> list[int]:
    """The labels as they are drawn for a text of the prompts' task and seed."""
    order: list[int] = generator(0, "news", "permuted", example).permutation(labels).tolist()
    return order


def test_what_sinks_take_is_a_segment_with_which_all_attention_adds_up_to_1() -> None:
    prompts = kernel_prompts([5])
    apart, fewer = each_alone(prompts), {1: with_first(prompts, 2)}
    segments = {
        kind: measure_kernel(tiny_model(kind), Decoder(), prompts, fewer, apart, [0], 50)[
            "segments"
        ]
        for kind in ("sinks", "latent")
    }
    example = single(whole_batch(prompts), 0)
    _, attentions = plain_attentions(tiny_model("sinks", eager=True), example)
    rest = 1 - attentions[:, :, -1].sum(-1)  # in layers 0 to 2, with 4 heads each
    assert rest.median() > 0.01
    sinks = segments["sinks"].filter(segment=SINK).sort("layer", "head")
    np.testing.assert_allclose(sinks["attention"].to_numpy(), rest.flatten(), rtol=1e-4, atol=1e-6)
    assert sinks["tokens"].sum() == sinks["width"].sum() == 0
    assert SINK not in segments["latent"]["segment"]


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_everything_equals_full_prompts_under_eager_attention(family: str) -> None:
    model, eager = tiny_model(family), tiny_model(family, eager=True)
    prompts = with_words(kernel_prompts([5, 17, 9]), [2, 1, 3])
    apart = each_alone(prompts)
    (tests, demonstrations), (queries, in_template) = apart
    fewer = with_first(prompts, 2)
    tables = measure_kernel(model, Decoder(), prompts, {1: fewer}, apart, OFFSETS, 20)
    assert tables["kernel"].schema == frame_schema(KERNEL)
    matrix = segment_matrix(prompts.to_dicts(), 60)

    def next_token(token_ids: list[int]) -> np.ndarray:
        with torch.no_grad():
            logits = eager(torch.tensor([token_ids])).logits[0, -1]
        return logits.double().softmax(-1).numpy()

    shown = np.stack([next_token(ids) for ids in demonstrations["token_ids"].to_list()])
    templated = np.stack([next_token(ids) for ids in in_template["token_ids"].to_list()])
    full = whole_batch(prompts)
    for row, example in enumerate(full.examples):
        logits, attentions = plain_attentions(eager, single(full, row))
        to_all = attentions[:, :, -1].double().numpy()  # [L, H, T]
        spans = [(max(a, 1), b) for a, b in SPANS]  # the prompt's first token is no kernel weight
        largest = np.stack([to_all[:, :, a:b].max(-1) for a, b in spans], -1)
        weights = {
            "max": largest,
            "label": np.stack([to_all[:, :, a:b].sum(-1) for a, b in WORDS], -1),
            "mean": np.stack([to_all[:, :, a:b].mean(-1) for a, b in spans], -1),
        }
        mine = pl.col("example") == example
        probabilities = tables["predictions"].filter(mine)["probabilities"][0].to_list()
        np.testing.assert_allclose(
            probabilities, logits[[5, 11, 23]].softmax(-1).numpy(), rtol=1e-4
        )
        similarity = shown @ next_token(tests.filter(mine)["token_ids"][0].to_list())
        np.testing.assert_allclose(
            tables["similarity"].filter(mine)["similarity"].to_numpy(), similarity, rtol=1e-4
        )
        other = templated @ next_token(queries.filter(mine)["token_ids"][0].to_list())
        np.testing.assert_allclose(
            tables["similarity"].filter(mine)["similarity_in_template"].to_numpy(), other, rtol=1e-4
        )
        for kind, of_kind in weights.items():
            shown_to = tables["attention"].filter(mine)[f"attention_{kind}"].explode().to_numpy()
            np.testing.assert_allclose(shown_to, of_kind.ravel(), rtol=1e-4, atol=1e-7)
            told = tables["kernel"].filter(mine, pl.col("weights") == kind)
            for name, of in (("correlation", similarity), ("correlation_in_template", other)):
                np.testing.assert_allclose(
                    told[name].fill_null(np.nan).to_numpy().reshape(of_kind.shape[:2]),
                    correlations(of_kind, of),
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
        placed = tables["places"].filter(mine)["attention"].to_numpy()
        np.testing.assert_allclose(placed, along.ravel(), rtol=1e-4, atol=1e-7)
        landed = tables["segments"].filter(mine)["attention"].to_numpy()
        plain = np.einsum("lht,st->lhs", to_all, matrix[example, :, : to_all.shape[-1]])
        np.testing.assert_allclose(landed, plain.ravel(), rtol=1e-4, atol=1e-7)
        of_fewer = next_token(fewer.filter(mine)["token_ids"][0].to_list())[[5, 11, 23]]
        counted = tables["counts"].filter(mine, pl.col("demonstrations_per_label") == 1)
        np.testing.assert_allclose(
            counted["probabilities"][0].to_list(), of_fewer / of_fewer.sum(), rtol=1e-4
        )
        _, attentions = plain_attentions(eager, single(whole_batch(fewer), row))
        to_all = attentions[:, :, -1].double().numpy()
        largest = np.stack([to_all[:, :, a:b].max(-1) for a, b in spans[:2]], -1)
        for name, labels in (("heads", [0, 1]), ("heads_permuted", permuted(example, [0, 1]))):
            sums = kernel_estimates(largest, labels, 3).reshape(-1, 3)
            clear = np.abs(sums[:, 0] - sums[:, 1]) > 1e-4  # False where NaN
            told = counted[name].explode().fill_null(-1).to_numpy()
            assert (told[clear] == sums.argmax(-1)[clear]).all()
            unseen = np.isnan(sums).any(-1)
            assert (told[unseen] == -1).all()
            assert (clear | unseen).mean() > 0.8

    # That of the configuration would forget what a sliding window has passed.
    of_states = {"config": eager.config} if runs_again(eager.config) else {}
    cache = DynamicCache(**of_states)
    with torch.no_grad():
        eager(torch.tensor([prompts["token_ids"][0].to_list()]), past_key_values=cache)
    at = [position + offset for position, _ in WORDS for offset in OFFSETS]
    at = [position for position in at if position < 30]  # after that, prompts differ
    attending = [cache.layers[place] for place in attention_layers(eager.config)]
    for layer, kept in enumerate(attending):
        ours = tables["states"].filter(layer=layer)
        for name, plain_states in (("key", kept.keys), ("value", kept.values)):
            np.testing.assert_allclose(
                np.array(ours[name].to_list()),
                plain_states[0, :, at].flatten(0, 1).numpy(),
                rtol=1e-4,
                atol=1e-5,
            )
    assert tables["states"]["next_token"].unique().to_list() == sorted(
        set(templated.argmax(-1).tolist())
    )


def test_prompts_that_are_all_too_long_leave_empty_tables() -> None:
    prompts = kernel_prompts([5, 6])
    long = prompts.with_columns(skipped=pl.lit("too long"))
    alone = each_alone(prompts)
    tables = measure_kernel(tiny_model("llama"), Decoder(), long, {}, alone, OFFSETS, 50)
    assert tables["states"].schema == frame_schema(STATES)
    assert [len(table) for table in tables.values()] == [0] * 8


@pytest.mark.parametrize(("offset", "shared"), [(20, [(0, 20)]), (-29, [])])
def test_offsets_that_lie_outside_leave_no_states(
    offset: int, shared: list[tuple[int, int]]
) -> None:
    prompts = kernel_prompts([5, 6])
    alone = each_alone(prompts)
    tables = measure_kernel(tiny_model("llama"), Decoder(), prompts, {}, alone, [offset], 50)
    states = tables["states"]
    assert states.schema == frame_schema(STATES)
    assert states.select("demonstration", "offset").unique().rows() == shared  # 8 + 20, not 18 + 20


def test_texts_are_run_once_for_everything_that_is_varied() -> None:
    # As many texts are shown as 4 rounds: half, and a quarter of them are run too.
    assert cost(Prompts(10, 40, 10, 1), {}, 3) == Cost(140 + 2 * (100 + 40) + 2 * 100)
