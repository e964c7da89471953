"""Saliency with the gradient of Edin et al. 2025, against one that is written out."""

import polars as pl
import pytest
import torch
from polars.testing import assert_frame_equal
from torch import Tensor, nn

from anchorflow.analyses.flow.measure import SharedSaliency, batch_saliency, measure_flow
from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import RULES, GradientRule
from anchorflow.model.batches import batches_of
from anchorflow.model.frozen_norms import norms_of
from anchorflow.model.layers import recompute_activations
from anchorflow.model.logits import label_logits
from anchorflow.model.prefix import shared_token_ids
from plain_gim import gim_products
from tiny_models import (
    FAMILIES,
    HYBRIDS,
    KINDS,
    WholeMatrices,
    depth_of,
    random_batch,
    shared_prompts,
    tiny_model,
    whole_batch,
)

GIM = RULES["gim"]
BRIEFLY = ("gpt2", "llama", "gemma2", "gemma3", "sinks", "alibi", "chunks")
EVERY = [
    family if family in BRIEFLY else pytest.param(family, marks=pytest.mark.long)
    for family in (*FAMILIES, *KINDS, *HYBRIDS)
]


def saliency(family: str, rule: GradientRule, lengths: list[int]) -> Tensor:
    """I_l of random prompts, [L, B, T, T]."""
    model, batch = tiny_model(family), random_batch(lengths)
    whole = WholeMatrices(depth_of(model), batch)
    batch_saliency(model, batch, whole, rule)
    return whole.matrices


@pytest.mark.parametrize("family", EVERY)
def test_gim_equals_its_backward_pass_written_out(family: str) -> None:
    found = saliency(family, GIM, [37, 21])
    expected = gim_products(tiny_model(family), random_batch([37, 21])).abs()
    for ours, plain in zip(found, expected, strict=True):
        assert (ours - plain).abs().max() <= 1e-4 * plain.abs().max()


@pytest.mark.parametrize("family", ["llama", "gemma3", "sinks"])
def test_without_its_changes_it_is_the_plain_gradient_bit_by_bit(family: str) -> None:
    plain = saliency(family, RULES["plain"], [37, 21])
    assert torch.equal(saliency(family, GradientRule(), [37, 21]), plain)
    for change in (
        GradientRule(temperature=2.0),
        GradientRule(query=0.25),
        GradientRule(key=0.25),
        GradientRule(value=0.5),
        GradientRule(frozen_norms=True),
    ):
        assert not torch.allclose(saliency(family, change, [37, 21]), plain, rtol=1e-3)


@pytest.mark.parametrize("family", EVERY)
def test_frozen_norms_leave_the_forward_pass_as_it_is_bit_by_bit(family: str) -> None:
    model, batch = tiny_model(family), random_batch([37, 21])
    logits = label_logits(model, batch)
    with norms_of(model, GIM):
        assert torch.equal(label_logits(model, batch), logits)
    assert not any(
        module._forward_hooks for module in model.modules() if not list(module.children())
    )


def test_shared_demonstrations_give_what_full_prompts_do() -> None:
    table, model = shared_prompts([5, 17]), tiny_model("gemma3")
    shared = SharedSaliency(model, shared_token_ids(table), GIM)
    (batch,) = batches_of(table, 1000, torch.device("cpu"), shared.prefix.tokens)
    whole = WholeMatrices(depth_of(model), batch)
    shared.measure(batch, whole)
    expected = gim_products(tiny_model("gemma3"), whole_batch(table)).abs()
    for ours, plain in zip(whole.matrices, expected, strict=True):
        assert (ours - plain).abs().max() <= 1e-4 * plain.abs().max()


@pytest.mark.parametrize("protocol", ["per_example", "fixed"])
def test_recomputed_activations_give_the_same_table(protocol: str) -> None:
    model, table = tiny_model("llama"), shared_prompts([5, 17, 9])
    table = table.with_columns(demonstrations=pl.lit(protocol))
    plain = measure_flow(model, table, 100, protocol, gradient="gim")
    recompute_activations(model)
    again = measure_flow(model, table, 100, protocol, gradient="gim")
    assert_frame_equal(again, plain, rel_tol=1e-4, abs_tol=1e-12)


def test_a_constant_scale_by_hand() -> None:
    """RMSNorm of (3, 4) has the scale 5/√2, by which the gradient is divided and no more."""
    norm = nn.RMSNorm(2, eps=0.0)
    norm.weight.data = torch.tensor([2.0, -1.0])
    states = torch.tensor([3.0, 4.0], requires_grad=True)
    with norms_of(norm, GIM):
        norm(states).backward(torch.tensor([1.0, 10.0]))
    scale = 5 / 2**0.5
    assert states.grad is not None
    assert states.grad.tolist() == pytest.approx([2 / scale, -10 / scale])


def test_a_norm_s_bias_does_not_enter_its_scale() -> None:
    norm = nn.LayerNorm(3)
    norm.weight.data, norm.bias.data = (
        torch.tensor([2.0, -1.0, 0.5]),
        torch.tensor([9.0, -7.0, 5.0]),
    )
    states = torch.tensor([[1.0, -2.0, 4.0], [0.1, 0.3, 0.2]], requires_grad=True)
    upstream = torch.tensor([[1.0, 10.0, 3.0], [2.0, 0.0, -1.0]])
    with norms_of(norm, GIM):
        norm(states).backward(upstream)
    weighted = norm.weight.detach() * upstream
    scale = (states.detach().var(-1, correction=0, keepdim=True) + norm.eps).sqrt()
    torch.testing.assert_close(states.grad, (weighted - weighted.mean(-1, keepdim=True)) / scale)


class Grouped(nn.Module):
    """A norm whose mean and scale are those of each half, as GroupNorm is over tokens."""

    def __init__(self, centered: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([1.0, -2, 3, 0.5, 2, 1, -1, 4]))
        self._centered = centered

    def forward(self, states: Tensor) -> Tensor:
        halves = states.unflatten(-1, (2, -1))
        halves = halves - halves.mean(-1, keepdim=True) if self._centered else halves
        return self.weight * (halves / halves.square().mean(-1, keepdim=True).sqrt()).flatten(-2)


@pytest.mark.parametrize("centered", [False, True])
def test_a_norm_of_groups_has_a_scale_for_each(centered: bool) -> None:
    norm, random = Grouped(centered), torch.Generator().manual_seed(0)
    states = torch.randn(3, 8, generator=random).requires_grad_()
    upstream = torch.randn(3, 8, generator=random)
    with norms_of(norm, GIM):
        norm(states).backward(upstream)
    halves = states.detach().unflatten(-1, (2, -1))
    expected = (norm.weight.detach() * upstream).unflatten(-1, (2, -1))
    if centered:
        halves, expected = (part - part.mean(-1, keepdim=True) for part in (halves, expected))
    expected = expected / halves.square().mean(-1, keepdim=True).sqrt()
    torch.testing.assert_close(states.grad, expected.flatten(-2))


def test_a_norm_of_another_kind_is_refused() -> None:
    with norms_of(norm := Crossed(), GIM), pytest.raises(InputError, match="use the plain gradien"):
        norm(torch.ones(2, 8, requires_grad=True))


class Crossed(nn.Module):
    """A norm whose scale is that of every element's neighbor."""

    def forward(self, states: Tensor) -> Tensor:
        return states / states.roll(1, -1).abs()


@pytest.mark.parametrize(
    "module", [nn.Linear(8, 8), nn.GELU(), nn.Identity(), nn.Softmax(-1), nn.Sigmoid(), nn.Tanh()]
)
def test_what_multiplying_changes_is_no_norm(module: nn.Module) -> None:
    states = torch.randn(3, 8, generator=torch.Generator().manual_seed(0)).requires_grad_()
    module(states).square().sum().backward()
    expected, states.grad = states.grad, None
    with norms_of(module, GIM):
        module(states).square().sum().backward()
    assert expected is not None and torch.equal(states.grad, expected)  # type: ignore[arg-type]
