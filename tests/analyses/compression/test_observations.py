"""What methods look at, against plain eager runs, and against kvpress where it is installed."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from transformers import PreTrainedModel

from anchorflow.analyses.compression.methods import Queries, method
from anchorflow.analyses.compression.observations import (
    Asking,
    future_queries,
    observe,
    repeated_attention,
    written_norms,
)
from anchorflow.config.errors import InputError
from anchorflow.model.prefix import compute_prefix, shared_token_ids
from tiny_models import FAMILIES, KINDS, PREFIX, TURNED_INSIDE, shared_prompts, tiny_model

ASKING, CHUNK = Asking([5, 6, 7], [8, 9], [3]), 12
IDS = shared_token_ids(shared_prompts([5, 17]))
QUICK = ("llama", "gemma3", "gpt2")
OTHERS = [f for f in (*FAMILIES, *KINDS) if f not in (*QUICK, "selected tokens", "selected blocks")]
SOME = [*QUICK, *(pytest.param(family, marks=pytest.mark.long) for family in OTHERS)]
# Rows of attention don't sum to 1 in them, or there are none to be returned.
UNEVEN = [kind for kind in KINDS if "sinks" in kind]


def attentions(model: PreTrainedModel, ids: list[int]) -> list[Tensor]:
    with torch.no_grad():
        found = model(torch.tensor([ids]), use_cache=False, output_attentions=True).attentions
    return [weights[0] for weights in found]


@pytest.mark.parametrize("family", SOME)
def test_a_key_s_attention_is_the_most_that_its_repetition_gives_it(family: str) -> None:
    """The eager run of prompt, request, and chunk, in the columns that count, which sum to 1."""
    if family in UNEVEN:
        pytest.skip("learned sinks share in its attention")
    model, eager = tiny_model(family), tiny_model(family, eager=True)
    prefix = compute_prefix(model, IDS)
    found = repeated_attention(model, prefix, IDS, ASKING, CHUNK)
    for start in range(0, PREFIX, CHUNK):
        stop = min(PREFIX, start + CHUNK)
        asked = [*ASKING.part, *IDS[start - 8 : start]] if start else [*ASKING.whole]
        whole = [*IDS, *asked, *ASKING.end, *IDS[start:stop]]
        for layer, weights in enumerate(attentions(eager, whole)):
            rows = weights[:, PREFIX:].clone()
            gone = [p for p in range(4, PREFIX) if not start <= p < stop]
            rows[:, :, gone] = 0
            rows /= rows.sum(-1, keepdim=True)
            groups = len(found[layer])
            most = rows[:, :, start:stop].amax(1).unflatten(0, (groups, -1)).amax(1)
            assert_close(found[layer][:, start:stop], most, rtol=1e-4, atol=1e-6)


def test_demonstrations_that_fill_the_context_cannot_be_repeated() -> None:
    model = tiny_model("gpt2")
    ids = (IDS * 9)[: model.config.max_position_embeddings - 5]
    with pytest.raises(InputError, match="leave no positions to repeat them in; leave kvzip"):
        repeated_attention(model, compute_prefix(model, ids), ids, ASKING)


def test_norms_are_those_of_what_each_query_head_writes() -> None:
    for family in ("llama", "gpt2"):
        model = tiny_model(family)
        prefix = compute_prefix(model, IDS)
        found = written_norms(model, prefix)
        for number, layer in prefix.layers.items():
            block = model.get_decoder().layers if family == "llama" else model.transformer.h
            attention = block[number].self_attn if family == "llama" else block[number].attn
            weight = attention.o_proj.weight.T if family == "llama" else attention.c_proj.weight
            values = layer.value[0].repeat_interleave(4 // layer.value.shape[1], 0)
            for head in range(4):
                part = weight[head * values.shape[2] : (head + 1) * values.shape[2]]
                expected = (values[head] @ part).norm(dim=-1)
                assert_close(found[number][head], expected, rtol=1e-4, atol=1e-6)


def turned(vectors: Tensor, angles: Tensor) -> Tensor:
    """Pairs of a dimension of each half, turned by their angles."""
    half = len(angles)
    pairs = torch.complex(vectors[..., :half], vectors[..., half:])
    pairs = pairs * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([pairs.real, pairs.imag], -1)


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_coming_queries_are_those_of_the_demonstrations_turned_to_the_next_positions(
    family: str,
) -> None:
    model = tiny_model(family)
    found = future_queries(model, IDS)
    with torch.no_grad():
        states = model(torch.tensor([IDS]), use_cache=False, output_hidden_states=True)
    more = min(512, model.config.max_position_embeddings - PREFIX)
    for number, layer in enumerate(model.model.layers):
        own = layer.self_attn
        query = own.q_proj(layer.input_layernorm(states.hidden_states[number][0]))
        query = query.unflatten(-1, (4, -1))
        query = (own.q_norm(query) if family == "qwen3" else query)[4:].detach().transpose(0, 1)
        size = query.shape[-1]
        speeds = model.config.rope_parameters["rope_theta"] ** (-torch.arange(0, size, 2) / size)
        places = range(PREFIX, PREFIX + more)
        mean = sum(turned(query, place * speeds) for place in places) / more  # of every query
        assert_close(found[number].mean, mean.mean(1) * size**-0.5, rtol=1e-3, atol=1e-4)
        apart = mean - mean.mean(1, keepdim=True)
        spread = torch.stack([each.T @ each for each in apart]) / apart.shape[1] / size
        assert_close(found[number].covariance, spread, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("family", [*FAMILIES, *KINDS])
def test_queries_are_known_or_refused(family: str) -> None:
    if family in ("selected tokens", "selected blocks"):  # of which only text is compressed
        return
    model = tiny_model(family)
    if family in TURNED_INSIDE:
        with pytest.raises(InputError, match="turns queries with their position is not known"):
            future_queries(model, IDS)
        return
    found = future_queries(model, IDS)
    assert len(found) == len(compute_prefix(model, IDS).layers)


def test_expected_attention_written_out() -> None:
    table = shared_prompts([5])
    shown = observe(tiny_model("llama"), IDS, table.row(0, named=True), ["expected_attention"])
    for number, positions in method("expected_attention")(shown, 9, 0).items():
        key, value = shown.prefix.layers[number].key[0], shown.prefix.layers[number].value[0]
        mean, covariance = shown.queries[number]
        for group in range(len(key)):
            expected = torch.zeros(PREFIX - 4)
            for head in range(2 * group, 2 * group + 2):
                keys = key[group, 4:]
                spread = torch.stack([k @ covariance[head] @ k / 2 for k in keys])
                expected += (keys @ mean[head] + spread).softmax(-1) / 2
            expected *= value[group, 4:].norm(dim=-1)
            order = sorted(range(4, PREFIX), key=lambda p: -float(expected[p - 4]))
            assert positions[group].tolist() == sorted([0, 1, 2, 3, *order[:5]])


def test_queries_without_spread_are_their_mean() -> None:
    """Where no position turns queries, they are those of the run itself."""
    model = tiny_model("gpt2")
    found = future_queries(model, IDS)
    assert all(isinstance(of, Queries) for of in found.values())
    with torch.no_grad():
        states = model(torch.tensor([IDS]), use_cache=False, output_hidden_states=True)
    block = model.transformer.h[0]
    query = block.attn.c_attn(block.ln_1(states.hidden_states[0][0]))[4:, :32].detach()
    assert_close(found[0].mean.flatten(), query.mean(0) * 8**-0.5, rtol=1e-4, atol=1e-5)


@pytest.mark.long
@pytest.mark.skipif(find_spec("kvpress") is None, reason="kvpress is not installed")
def test_scores_are_those_of_kvpress(tmp_path: Path) -> None:
    budget, file = 16, tmp_path / "scores.pt"
    script = Path(__file__).parents[2] / "tools" / "kvpress_scores.py"
    ids = ",".join(map(str, IDS))
    subprocess.run([sys.executable, script, ids, str(budget), file], check=True)
    scores, model = torch.load(file), tiny_model("llama")
    names = ["kvzip", "snapkv_by_value", "expected_attention"]
    shown = observe(model, IDS, shared_prompts([5]).row(0, named=True), names, ASKING)
    repeated = repeated_attention(model, shown.prefix, IDS, ASKING, CHUNK)
    expected = method("expected_attention")(shown, budget, 0)
    snapkv = method("snapkv")(shown, budget, 0)
    pyramid = method("pyramidkv")(shown, budget, 0)
    for number, theirs in scores.items():
        assert_close(repeated[number], theirs["repeated"], rtol=1e-4, atol=1e-6)
        assert_close(shown.written[number], theirs["written"], rtol=1e-4, atol=1e-6)
        last = shown.observed[number][:, -1, :-1].mean(0)  # theirs always keeps the last token
        assert_close(theirs["tova"][0, :-1], last, rtol=1e-4, atol=1e-6)
        for ours, name in ((expected, "expected"), (snapkv, "snapkv")):
            best = theirs[name].topk(budget).indices.sort(-1).values
            assert ours[number].expand(len(best), -1).tolist() == best.tolist(), name
        # Theirs spreads what the window takes too, and rounds by layer.
        assert abs(pyramid[number].shape[1] - theirs["budget"]) <= 4
