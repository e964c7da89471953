"""The attention function: causal by itself, honest about what it can't do, the same in bfloat16."""

import pytest
import torch
from torch import Tensor
from transformers import AttentionMaskInterface, LlamaConfig, LlamaForCausalLM

from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import (
    IMPLEMENTATION,
    Attention,
    AttentionCall,
    chunk_probabilities,
    intervene,
    plain_attention,
    row_chunks,
)
from anchorflow.model.language_model import target_logits
from tiny_models import FAMILIES, random_batch, tiny_model


@pytest.mark.parametrize("family", FAMILIES)
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


def test_transformers_would_run_non_causally_without_a_mask_of_the_same_name() -> None:
    """The trap that our function is built to avoid: if this fails, transformers mended it."""
    from transformers import AttentionInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    def unmasked(*arguments: object, **options: object) -> object:
        return sdpa_attention_forward(*arguments, is_causal=False, **options)  # type: ignore[arg-type]

    AttentionInterface.register("unmasked", unmasked)
    config = LlamaConfig(
        vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, attn_implementation="unmasked",
    )  # fmt: skip
    torch.manual_seed(0)
    model = LlamaForCausalLM(config).eval()
    ids = random_batch([12]).input_ids
    changed = ids.clone()
    changed[:, -1] = 1
    with torch.no_grad():
        assert not torch.equal(model(ids).logits[:, 0], model(changed).logits[:, 0])


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


def test_chunks_cover_every_row_once() -> None:
    chunks = list(row_chunks(call(None, None), elements=1))
    assert [row for start, stop in chunks for row in range(start, stop)] == list(range(40))
    assert len(chunks) > 1


def test_a_model_that_brings_its_own_mask_is_refused() -> None:
    model = tiny_model("llama")
    with pytest.raises(InputError, match="attention mask hides tokens"):
        model(
            input_ids=random_batch([12]).input_ids,
            attention_mask=torch.zeros(1, 1, 12, 12),
            use_cache=False,
        )


@pytest.mark.parametrize("option", [{"s_aux": torch.zeros(4)}, {"position_bias": torch.zeros(1)}])
def test_attention_that_is_not_followed_is_refused(option: dict[str, Tensor]) -> None:
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
