"""Runs that are resumed after a layer, also where later layers have the keys of earlier ones."""

import pytest
import torch
from torch import Tensor

from anchorflow.model.attention_function import adopt
from anchorflow.model.layers import Resumed, decoder_layers, keep_outputs, resume
from tiny_families import tiny_family
from tiny_models import random_batch


@pytest.mark.parametrize("kind", ["llama", "gemma3n_text", "gemma4_text"])
@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_resumed_run_equals_a_whole_one_with_that_output(kind: str, after: int) -> None:
    model, ids = tiny_family(kind), random_batch([20]).input_ids
    adopt(model)

    def logits() -> Tensor:
        found: Tensor = model(input_ids=ids, use_cache=False).logits
        return found

    def moved(*_: object) -> Tensor:
        return kept[after].output + 0.1

    with keep_outputs(model, [after]) as kept:
        whole = logits()
    with resume(model, kept[after]):
        assert torch.equal(logits(), whole)
    with resume(model, Resumed(after, moved())):
        resumed = logits()
    with decoder_layers(model)[after].register_forward_hook(moved):
        assert torch.equal(resumed, logits())
    assert not torch.equal(resumed, whole)
    assert torch.equal(logits(), whole)  # no layer stays skipped


@pytest.mark.parametrize("kind", ["llama", "gemma3n_text", "hy_v4"])
def test_examples_of_a_batch_are_resumed_alone_and_one_several_times(kind: str) -> None:
    model, ids = tiny_family(kind), random_batch([20, 20, 20]).input_ids
    adopt(model)

    def logits(of: Tensor) -> Tensor:
        with torch.no_grad():
            found: Tensor = model(input_ids=of, use_cache=False).logits
        return found

    rows = torch.tensor([2, 0])
    with keep_outputs(model, [1]) as kept:
        whole = logits(ids)
        kept_of_all = kept[1]
        logits(ids[:1])
    with resume(model, kept_of_all.select(rows)):
        torch.testing.assert_close(logits(ids[rows]), whole[rows], rtol=1e-4, atol=1e-4)
    with resume(model, kept[1].repeated(3)):
        torch.testing.assert_close(
            logits(ids[:1].expand(3, -1)), whole[:1].expand(3, -1, -1), rtol=1e-4, atol=1e-4
        )
