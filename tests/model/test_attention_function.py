"""The attention function: causal by itself, honest about what it can't do, the same in bfloat16."""

import inspect
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import AttentionMaskInterface

from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import (
    _BY_METHOD,
    IMPLEMENTATION,
    Attention,
    AttentionCall,
    _gpu_elements,
    attention_gradients,
    chunk_probabilities,
    gpu_chunk_elements,
    intervene,
    plain_attention,
    row_chunks,
)
from anchorflow.model.logits import target_logits
from tiny_models import EVERY_FAMILY, random_batch, tiny_model


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_no_token_sees_a_later_one_even_without_a_registered_mask(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_model(family)
    ids = random_batch([30]).input_ids
    changed = ids.clone()
    changed[:, 20:] = (changed[:, 20:] + 1) % 90
    mask_functions = AttentionMaskInterface._global_mapping
    for registered in (True, False):
        if not registered:
            monkeypatch.delitem(mask_functions, IMPLEMENTATION)
        with torch.no_grad():
            one = model(input_ids=ids, use_cache=False).logits
            other = model(input_ids=changed, use_cache=False).logits
        assert torch.equal(one[:, :20], other[:, :20])
        assert not torch.equal(one[:, 20:], other[:, 20:])


def call(sliding_window: int | None, softcap: float | None, tokens: int = 40) -> AttentionCall:
    torch.manual_seed(0)
    return AttentionCall(
        layer=0,
        query=torch.randn(2, 4, tokens, 8),
        key=torch.randn(2, 2, 40, 8),
        value=torch.randn(2, 2, 40, 8),
        scaling=0.5,
        sliding_window=sliding_window,
        softcap=softcap,
    )


def reference(call: AttentionCall) -> Tensor:
    """Attention probabilities [B, H, T, K], written out with one full mask."""
    key = call.key.repeat_interleave(2, 1)
    scores = call.query @ key.transpose(-1, -2) * call.scaling
    if call.softcap is not None:
        scores = call.softcap * torch.tanh(scores / call.softcap)
    queries = torch.arange(call.query.shape[2])[:, None] + 40 - call.query.shape[2]
    keys = torch.arange(40)[None]
    hidden = keys > queries
    if call.sliding_window is not None:
        hidden |= queries - keys >= call.sliding_window
    return scores.masked_fill(hidden, -torch.inf).softmax(-1)


@pytest.mark.parametrize("window", [None, 1, 7, 40])
@pytest.mark.parametrize("softcap", [None, 1.5])
@pytest.mark.parametrize("tokens", [40, 9])
def test_chunks_and_output_equal_attention_written_out(
    window: int | None, softcap: float | None, tokens: int
) -> None:
    one = call(window, softcap, tokens)
    expected = reference(one)
    for start, stop in [(0, 5), (5, tokens)]:
        keys = one.keys_of(start, stop)
        ours = chunk_probabilities(one, start, stop).unflatten(2, (2, -1)).flatten(1, 2)
        torch.testing.assert_close(ours, expected[:, :, start:stop, keys])
    torch.testing.assert_close(
        plain_attention(one), expected @ one.value.repeat_interleave(2, 1), rtol=1e-4, atol=1e-6
    )


def meta_call(batch: int, heads: int, tokens: int) -> AttentionCall:
    """A call of which only the shapes matter."""
    shaped = torch.empty(batch, heads, tokens, 64, device="meta")
    return AttentionCall(layer=0, query=shaped, key=shaped, value=shaped, scaling=0.125)


def test_chunks_on_a_processor_stay_within_its_cache() -> None:
    # 2**19 / (32 heads · 1024 keys) = 16 rows.
    assert list(row_chunks(meta_call(1, 32, 1024)))[:2] == [(0, 16), (16, 32)]
    assert next(row_chunks(meta_call(1, 32, 4096))) == (0, 16)  # the least number of rows
    assert list(row_chunks(meta_call(2, 4, 512))) == [(0, 128), (128, 256), (256, 384), (384, 512)]


@pytest.mark.parametrize(
    ("gib", "elements"),
    [
        (80, 2**24),  # an eighth, 10 GiB, would hold 4.5e8 elements of 24 bytes: more than needed
        (3, 2**24),  # 384 MiB hold exactly 2**24 of 24 bytes
        (2.9, 2**23),  # a little less: the next power of two
        (1, 2**22),  # 128 MiB hold 5.6e6
        (0, 1),  # then row_chunks takes its least number of rows
    ],
)
def test_chunks_on_a_gpu_take_at_most_an_eighth_of_its_free_memory(
    gib: float, elements: int
) -> None:
    assert gpu_chunk_elements(int(gib * 2**30)) == elements


def test_a_gpu_is_asked_for_its_memory_once_per_shape_and_what_torch_holds_unused_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def free_and_total(device: torch.device) -> tuple[int, int]:
        asked.append(device.type)
        return 2**29, 2**33

    monkeypatch.setattr(torch.cuda, "mem_get_info", free_and_total)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 2**31)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _: 2**31 - 2**29)
    _gpu_elements.cache_clear()
    with FakeTensorMode():  # tensors without memory, on a GPU that need not be there
        query = torch.empty(1, 32, 1024, 64, device="cuda")
        layers = [AttentionCall(layer, query, query, query, 0.125) for layer in range(3)]
        steps = [next(row_chunks(each))[1] for each in layers]
    _gpu_elements.cache_clear()
    # Of 1 GiB, an eighth holds 2**22 elements: 128 rows of 32 heads · 1024 keys.
    assert steps == [128, 128, 128]
    assert asked == ["cuda"]


@pytest.mark.parametrize("window", [None, 7])
@pytest.mark.parametrize("softcap", [None, 1.5])
def test_gradients_in_chunks_of_any_size_add_up_to_those_in_one(
    window: int | None, softcap: float | None
) -> None:
    one = call(window, softcap)
    upstream = torch.randn_like(one.query)

    def gradients(elements: int) -> list[Tensor]:
        significance = torch.zeros(2, 40, 40)
        query, key, value = (torch.zeros_like(each) for each in (one.query, one.key, one.value))
        for start, stop in row_chunks(one, elements):
            keys = one.keys_of(start, stop)
            flow, *parts = attention_gradients(one, upstream, start, stop)
            significance[:, start:stop, keys] = flow
            query[:, :, start:stop] = parts[0]
            key[:, :, keys] += parts[1]
            value[:, :, keys] += parts[2]
        return [significance, query, key, value]

    whole = gradients(2**24)
    for elements in (1, 24 * 2 * 4 * 40):  # 16 and 24 rows
        torch.testing.assert_close(gradients(elements), whole, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("window", [None, 7])
def test_keys_repeated_for_a_gpu_give_what_shared_ones_do(
    window: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = call(window, None)
    shared = plain_attention(one)
    monkeypatch.setattr("anchorflow.model.attention_function._takes_groups", lambda device: False)
    torch.testing.assert_close(plain_attention(one), shared, rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("window", [None, 1000])
def test_attention_on_cuda_equals_that_on_the_cpu_and_keeps_no_matrix_of_scores(
    window: int | None, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    shapes = ((1, 8, 4096, 64), (1, 2, 4096, 64), (1, 2, 4096, 64))
    there = [torch.randn(shape).to("cuda", dtype) for shape in shapes]
    here = [tensor.float().cpu() for tensor in there]
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    output = plain_attention(AttentionCall(0, *there, 0.125, window))
    # A matrix of scores of all heads takes 512 MiB in float32, 256 MiB in bfloat16.
    assert torch.cuda.max_memory_allocated() - before < 200 * 2**20
    expected = plain_attention(AttentionCall(0, *here, 0.125, window))
    tolerance = 1e-4 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(output.float().cpu(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "option", [{"position_bias": torch.zeros(1)}, {"is_causal": False}, {"dropout": 0.1}]
)
def test_attention_that_is_not_followed_is_refused(option: dict[str, Any]) -> None:
    from anchorflow.model.attention_function import _attend

    module = tiny_model("llama").model.layers[0].self_attn
    one = call(None, None)
    with pytest.raises(InputError, match="not supported"):
        _attend(module, one.query, one.key, one.value, None, **option)


def test_an_intervention_ends_with_its_block_even_after_an_error() -> None:
    seen: list[int] = []

    class Observer:
        def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
            seen.append(call.layer)
            return attention(call)

    model, batch = tiny_model("llama"), random_batch([12])
    with pytest.raises(RuntimeError), intervene(Observer()):
        target_logits(model, batch)
        raise RuntimeError
    target_logits(model, batch)
    assert seen == [0, 1, 2]


def test_architectures_without_an_attention_interface_have_the_method_that_is_replaced() -> None:
    """The private ``_attn`` of transformers, without which they would keep their own attention."""
    from transformers.models.codegen.modeling_codegen import CodeGenAttention
    from transformers.models.gpt_neo.modeling_gpt_neo import GPTNeoSelfAttention
    from transformers.models.gpt_neox_japanese.modeling_gpt_neox_japanese import (
        GPTNeoXJapaneseAttention,
    )
    from transformers.models.gptj.modeling_gptj import GPTJAttention

    classes = (CodeGenAttention, GPTJAttention, GPTNeoSelfAttention, GPTNeoXJapaneseAttention)
    assert {each.__name__ for each in classes} == set(_BY_METHOD)
    for attention in classes:
        assert "self._attn(" in inspect.getsource(attention.forward)
        assert list(inspect.signature(attention._attn).parameters)[:4] == [
            "self", "query", "key", "value",
        ]  # fmt: skip
