"""Saliency against autograd on eager attention, and its means against values by hand."""

import math
from typing import Any

import polars as pl
import pytest
import torch
from polars.testing import assert_frame_equal
from torch import Tensor

from anchorflow.analyses.flow import FLOW
from anchorflow.analyses.flow.measure import (
    MATCHED,
    ControlSums,
    FlowSums,
    SharedSaliency,
    batch_saliency,
    flow_means,
    kinds_with_controls,
    label_rows,
    measure_flow,
    text_draw,
)
from anchorflow.model.batches import batches_of
from anchorflow.model.layers import decoder_layers, recompute_activations
from anchorflow.model.prefix import shared_token_ids
from anchorflow.prepare.positions import ABSENT, SOURCES, matched_positions
from constructed.wordy import bare_prompt, wordy_prompts
from tiny_models import (
    EVERY_FAMILY,
    FAMILIES,
    WholeMatrices,
    depth_of,
    plain_saliency,
    random_batch,
    shared_prompts,
    single,
    tiny_model,
    whole_batch,
)
from worded_prompts import with_instruction


@pytest.mark.parametrize("family", ["gpt2", "gptj", "llama", "gemma3"])
def test_bfloat16_stays_near_float32(family: str) -> None:
    batch = random_batch([60, 45])
    means = []
    for dtype in (torch.float32, torch.bfloat16):
        model = tiny_model(family)
        for parameter in model.parameters():
            parameter.data = parameter.data.to(dtype)
        sums = FlowSums(batch)
        batch_saliency(model, batch, sums)
        means.append(torch.stack(sums.means(depth_of(model))))
    assert means[1].isfinite().all()
    # Random weights amplify rounding: eight bits of mantissa leave about a tenth on the means.
    torch.testing.assert_close(means[1].mean(2), means[0].mean(2), rtol=0.25, atol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("protocol", ["per_example", "fixed"])
@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_every_column_on_cuda_equals_that_on_the_cpu(family: str, protocol: str) -> None:
    prompts = wordy_prompts([6, 17, 1, 9], protocol)
    here, there = (
        measure_flow(tiny_model(family).to(device), prompts, 120, protocol)  # type: ignore[arg-type]
        for device in ("cpu", "cuda")
    )
    for name in FLOW.names[5:]:
        assert there[name].to_list() == pytest.approx(here[name].to_list(), rel=1e-3, abs=1e-7)


def test_a_label_position_after_the_target_is_refused() -> None:
    with pytest.raises(ValueError, match="precede"):
        flow_means(torch.ones(4), torch.ones(1), torch.tensor([3]), torch.tensor(3))


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_saliency_equals_autograd_on_eager_attention_in_mixed_batches(family: str) -> None:
    batch = random_batch([37, 21, 50, 24])
    model, eager = tiny_model(family), tiny_model(family, eager=True)
    whole = WholeMatrices(depth_of(model), batch)
    batch_saliency(model, batch, whole)
    for row in range(batch.size):
        plain = plain_saliency(eager, single(batch, row))
        tokens = plain.shape[-1]
        ours = whole.matrices[:, row, :tokens, :tokens]
        assert plain.abs().max() > 0
        assert (ours - plain).abs().max() <= 1e-4 * plain.abs().max()
        assert whole.matrices[:, row, tokens:].count_nonzero() == 0


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_recomputed_activations_give_the_same_saliency(family: str) -> None:
    batch, model = random_batch([37, 21]), tiny_model(family)
    layers = depth_of(model)
    assert len(decoder_layers(model)) == model.config.num_hidden_layers
    kept, recomputed = FlowSums(batch), FlowSums(batch)
    batch_saliency(model, batch, kept)
    recompute_activations(model)
    batch_saliency(model, batch, recomputed)
    torch.testing.assert_close(recomputed.means(layers), kept.means(layers), rtol=1e-6, atol=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_shared_demonstrations_give_the_saliency_of_full_prompts(family: str) -> None:
    table = shared_prompts([5, 17, 9])
    model, eager = tiny_model(family), tiny_model(family, eager=True)
    full = whole_batch(table)
    shared = SharedSaliency(model, shared_token_ids(table))
    (batch,) = batches_of(table, 1000, torch.device("cpu"), shared.prefix.tokens)
    for _ in range(2):  # the prefix's graph is there for the next batch too
        whole = WholeMatrices(depth_of(model), batch)
        shared.measure(batch, whole)
    for row in range(batch.size):
        plain = plain_saliency(eager, single(full, row))
        tokens = plain.shape[-1]
        ours = whole.matrices[:, row, :tokens, :tokens]
        assert (ours - plain).abs().max() <= 1e-4 * plain.abs().max()


def test_recomputed_activations_of_shared_demonstrations_give_the_same_table() -> None:
    model, table = tiny_model("llama"), shared_prompts([5, 17, 9, 30])
    plain = measure_flow(model, table, 100, "fixed")
    recompute_activations(model)
    again = measure_flow(model, table, 100, "fixed")
    assert again.shape == (12, len(FLOW.names))
    assert_frame_equal(again, plain, rel_tol=1e-4, abs_tol=1e-12)


def pair_by_pair(matrix: Tensor, prompt: dict[str, Any]) -> dict[str, float | None]:
    """All columns of one layer from I_l [T, T], each from its own set of pairs as defined."""
    saliency = matrix.double().tolist()
    target = prompt["target_position"]
    every = {(i, j) for i in range(target + 1) for j in range(i)}
    words, spans = (
        [set(range(*ends)) for ends in zip(prompt[first], prompt[last], strict=True)]
        for first, last in (
            ("label_positions", "label_ends"),
            ("demonstration_starts", "demonstration_ends"),
        )
    )
    labels = set.union(*words)
    query = set(range(prompt["query_start"], target))
    shown = set(range(1, prompt["query_start"])) - labels
    template = shown & set(prompt["format_positions"])
    instruction = set(range(1, prompt["instruction_end"] or 0)) - template
    text = shown - template - instruction
    groups = {"label": labels, "template": template, "text": text, "first": {0}}
    groups["instruction"] = instruction

    def mean(pairs: set[tuple[int, int]], over: int | None = None) -> float | None:
        return sum(saliency[i][j] for i, j in pairs) / (over or len(pairs)) if pairs else None

    def flows(positions: set[int]) -> list[float | None]:
        into = {(i, j) for i, j in every if i in positions}
        onto = {(target, j) for j in positions}
        return [mean(into), mean(onto), mean(every - into - onto)]

    measured: dict[str, float | None] = {}
    matched = {name: matched_positions(prompt, name, text_draw(prompt)) for name in MATCHED}
    for suffix, positions in [("", labels), *((f"_{k}", set(v or ())) for k, v in matched.items())]:
        values = flows(positions) if positions else [None] * 3
        for flow, value in zip(("s_wp", "s_pq", "s_ww"), values, strict=True):
            measured[flow + suffix] = value
    for name, group in {**groups, "query": query}.items():
        measured[f"target_{name}"] = mean({(target, j) for j in group})
    sources: dict[str, set[tuple[int, int]]] = {name: set() for name in SOURCES}
    for word, span in zip(words, spans, strict=True):
        for i in word:
            for j in range(i):
                own = "text" if j in groups["text"] else "template"
                before = "instruction" if j in instruction else "rest"
                later = "labels" if j in labels else own if j in span else before
                sources["first" if j == 0 else later].add((i, j))
    pairs = sum(map(sum, words))
    for name, of_source in sources.items():
        measured[f"wp_{name}"] = mean(of_source, pairs) or 0
    texts = [span & groups["text"] for span in spans]
    placed = {"label": labels, **{name: set(matched[name] or ()) for name in ("text", "before")}}
    for name, positions in placed.items():
        own = {
            (i, j)
            for i in positions
            for span, tokens in zip(spans, texts, strict=True)
            if i in span
            for j in tokens
            if j < i
        }
        measured[f"own_{name}"] = mean(own)
    for name in ("label", "text", "instruction"):
        rows = [sum(saliency[i][:i]) / i for i in groups[name]]
        measured[f"into_{name}"] = sum(rows) / len(rows) if rows else None
    return measured


@pytest.mark.parametrize("protocol", ["per_example", "fixed"])
@pytest.mark.parametrize("instructed", [False, True])
@pytest.mark.parametrize("family", ["gpt2", "gptj", "gpt-neo", "llama", "gemma2", "gemma3"])
def test_every_column_equals_the_pairs_of_eager_attention(
    family: str, instructed: bool, protocol: str
) -> None:
    prompts = wordy_prompts([6, 17, 1, 9], protocol)
    if instructed:
        prompts = with_instruction(prompts)
    table = measure_flow(tiny_model(family), prompts, 120, protocol)
    eager = tiny_model(family, eager=True)
    assert table.columns == FLOW.names
    for batch in batches_of(prompts, 1, torch.device("cpu")):
        (prompt,) = prompts.filter(example=batch.examples[0]).to_dicts()
        layers = table.filter(example=batch.examples[0]).sort("layer")
        matrices = plain_saliency(eager, batch)
        for matrix, row in zip(matrices, layers.to_dicts(), strict=True):
            expected = pair_by_pair(matrix, prompt)
            rounding = 1e-5 * float(matrix.max())
            assert set(expected) == set(FLOW.names[5:])
            for name, value in expected.items():
                close = value if value is None else pytest.approx(value, rel=1e-4, abs=rounding)
                assert row[name] == close, name
            parts = [row[f"wp_{name}"] for name in SOURCES]
            assert sum(parts) == pytest.approx(row["s_wp"], rel=1e-12)
    # The query of one token ends where it begins: nothing of it precedes the target.
    assert table.filter(example=2)["target_query"].is_null().all()
    assert table.filter(example=2)["s_wp_after"].is_null().all()
    of_instruction = ["target_instruction", "into_instruction"]
    others = table.filter(pl.col("example") != 2).drop(of_instruction)
    assert others.null_count().sum_horizontal().item() == 0
    without = 0 if instructed else len(table)
    assert table.select(of_instruction).null_count().row(0) == (without, without)
    assert (table["wp_instruction"].max() > 0) is instructed


def test_columns_of_a_9_by_9_matrix_equal_the_values_worked_out_by_hand() -> None:
    prompt = bare_prompt()  # first | text : label | text : label | query target
    (batch,) = batches_of(pl.DataFrame([prompt]), 1, torch.device("cpu"))
    sink = ControlSums(batch, kinds_with_controls([prompt]))
    token = torch.arange(9.0)
    saliency = (10 * token[:, None] + token).tril()[None]  # I(i, j) = 10 i + j
    for start, stop in ((0, 5), (5, 9)):  # in two chunks
        sink.take(0, slice(start, stop), slice(0, stop), saliency[:, start:stop, :stop].clone())
    columns = {name: value.item() for name, value in sink.columns(1).items()}
    by_hand = {
        "s_wp": (30 + 31 + 32 + 60 + 61 + 62 + 63 + 64 + 65) / 9,
        "s_pq": (83 + 86) / 2,
        "s_ww": (2124 - 468 - 169) / (36 - 9 - 2),
        "s_wp_text": (10 + 40 + 41 + 42 + 43) / 5,
        "s_pq_text": (81 + 84) / 2,
        "s_ww_text": (2124 - 176 - 165) / (36 - 5 - 2),
        "s_wp_before": (20 + 21 + 50 + 51 + 52 + 53 + 54) / 7,
        "s_pq_before": (82 + 85) / 2,
        "s_ww_before": (2124 - 301 - 167) / (36 - 7 - 2),
        "s_wp_after": (166 + 511) / 11,  # rows 4 and 7
        "s_pq_after": (84 + 87) / 2,
        "s_ww_after": (2124 - 677 - 171) / (36 - 11 - 2),
        "target_label": (83 + 86) / 2,
        "target_template": (82 + 85) / 2,
        "target_text": (81 + 84) / 2,
        "target_first": 80,
        "target_query": 87,
        "wp_text": (31 + 64) / 9,
        "wp_template": (32 + 65) / 9,
        "wp_labels": 63 / 9,
        "wp_instruction": 0,
        "wp_rest": (61 + 62) / 9,
        "wp_first": (30 + 60) / 9,
        "own_label": (31 + 64) / 2,
        "own_before": (21 + 54) / 2,
        "into_label": (93 / 3 + 375 / 6) / 2,
        "into_text": (10 / 1 + 166 / 4) / 2,
    }
    absent = {name for name, value in columns.items() if math.isnan(value)}
    # A text of one token has no earlier one.
    assert absent == {"target_instruction", "into_instruction", "own_text"}
    assert {name: columns[name] for name in by_hand} == pytest.approx(by_hand, rel=1e-12)
    assert set(columns) == set(by_hand) | absent


def test_label_words_of_several_tokens_count_with_all_of_them() -> None:
    (batch,) = batches_of(wordy_prompts([6, 9], "per_example"), 1000, torch.device("cpu"))
    first, end = batch.label_positions, batch.label_ends
    assert (end - first).tolist() == [[1, 3, 2]] * 2
    for row, tokens in enumerate(label_rows(batch).tolist()):
        a, b, c = first[row].tolist()
        assert [token for token in tokens if token != ABSENT] == [a, b, b + 1, b + 2, c, c + 1]


def test_text_tokens_are_the_same_for_all_prompts_with_fixed_demonstrations_alone() -> None:
    drawn = {
        protocol: [
            matched_positions(prompt, "text", text_draw(prompt))
            for prompt in wordy_prompts([6] * 8, protocol).to_dicts()
        ]
        for protocol in ("fixed", "per_example")
    }
    assert all(positions == drawn["fixed"][0] for positions in drawn["fixed"])
    assert len(set(map(str, drawn["per_example"]))) > 1
