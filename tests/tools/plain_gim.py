"""The backward pass of Edin et al. 2025 (GIM), written out on whole attention matrices.

Only gradients differ: a factor f of a tensor's gradient is f·x plus a constant, and a scale σ of a
norm is held constant by multiplying what the norm adds to its bias by σ and dividing it by the
constant.
"""

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from anchorflow.model.attention_function import Attention, AttentionCall, intervene
from anchorflow.model.batches import Batch
from anchorflow.model.logits import label_logits
from tiny_models import full_attention

CENTERING = ("LayerNorm", "OlmoLayerNorm")  # the other norms are RMSNorms


class PlainGim:
    """Whole attention matrices as ``leaves`` of the graph, with the gradients of GIM."""

    def __init__(self) -> None:
        self.leaves: dict[int, Tensor] = {}

    def attend(self, call: AttentionCall, _: Attention) -> Tensor:
        query, key, value = (
            share * tensor + ((1 - share) * tensor).detach()
            for share, tensor in ((0.25, call.query), (0.25, call.key), (0.5, call.value))
        )
        scores, hidden, value = full_attention(replace(call, query=query, key=key, value=value))
        scores = scores.masked_fill(hidden, -torch.inf)
        if call.sinks is not None:
            sinks = call.sinks.view(1, -1, 1, 1).expand(*scores.shape[:3], 1)
            scores = torch.cat([scores, sinks], -1)
        halved = 2 * (scores / 2).softmax(-1)
        weights = halved + (scores.softmax(-1) - halved).detach()
        weights = weights[..., : hidden.shape[-1]]
        weights.retain_grad()
        self.leaves[call.layer] = weights
        return weights @ value


def _frozen(norm: Any, given: tuple[Tensor, ...], output: Tensor) -> Tensor:
    if len(given) > 1:  # a gated norm
        return output
    states, bias = given[0], getattr(norm, "bias", None)
    if type(norm).__name__ in CENTERING:
        states = states - states.mean(-1, keepdim=True)
    small = getattr(norm, "eps", getattr(norm, "variance_epsilon", 1e-5))
    scale = (states.square().mean(-1, keepdim=True) + small).sqrt()
    shift = torch.zeros(()) if bias is None else bias
    return shift + (output - shift) * scale / scale.detach()


def frozen_norms(model: nn.Module) -> ExitStack:
    """A context in which the scales of all norms are constants."""
    hooks = ExitStack()
    for module in model.modules():
        if "Norm" in type(module).__name__:
            hooks.enter_context(module.register_forward_hook(_frozen))
    return hooks


def gim_products(model: nn.Module, batch: Batch) -> Tensor:
    """A ⊙ ∂L/∂A summed over heads, of every layer, [L, B, T, T]."""
    plain = PlainGim()
    with frozen_norms(model), intervene(plain):
        cross_entropy(label_logits(model, batch), batch.labels, reduction="sum").backward()
    weights = [plain.leaves[layer] for layer in sorted(plain.leaves)]
    return torch.stack([(each * each.grad).sum(1).detach() for each in weights])
