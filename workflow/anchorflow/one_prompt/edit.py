"""Attention of one prompt with cut edges and re-weighted label words, its weights kept if asked.

All rows are computed with their whole matrix of weights, which a single prompt allows.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from anchorflow.analyses.knockout.measure import as_heavy
from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import Attention, AttentionCall, attention_rows, mixed_rows


def all_rows(call: AttentionCall) -> Tensor:
    """All query rows of each example, [B, T]."""
    size, _, tokens, _ = call.query.shape
    return torch.arange(tokens, device=call.query.device).expand(size, -1)


@dataclass
class Choose:
    """The intervention that observes a prompt and chooses what is cut in its place, by layer.

    ``edges``, [T, T], are true from a row to a key. ``chosen`` has them first, then for each of
    ``ranks``, [draws, T, T], other keys of the same rows that hold as much attention in this layer,
    see :func:`as_heavy`: [1 + draws, T, T]. ``attention``, [1 + draws], is what all of them hold,
    a mean over ``heads``, summed over rows and layers; ``number`` counts them.
    """

    edges: Tensor
    ranks: Tensor
    layers: Collection[int] | None = None
    heads: Collection[int] | None = None
    chosen: dict[int, Tensor] = field(default_factory=dict)
    attention: Tensor | float = 0.0
    number: Tensor | int = 0

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        """The output of attention, which does not change."""
        if self.layers is None or call.layer in self.layers:
            weights = attention_rows(call, all_rows(call))  # [1, H, T, T]
            weights = weights if self.heads is None else weights[:, list(self.heads)]
            # To any head: some layers select other keys for each.
            visible = ~call.hidden_from(all_rows(call), slice(0, call.keys)).all(1)[0]
            edges = (self.edges.to(weights.device) & visible)[None]
            ranks = self.ranks.to(weights.device) * visible
            drawn = [as_heavy(weights, edges, of_draw[None]) for of_draw in ranks]
            seen = torch.cat([edges, *drawn])
            self.attention = self.attention + (weights.mean(1) * seen).sum((1, 2)).cpu()
            self.number = self.number + seen.sum((1, 2)).cpu()
            # Also edges that are hidden here: under the cut, layers may select their keys.
            self.chosen[call.layer] = torch.cat([self.edges.to(edges.device)[None], *drawn])
        return attention(call)


@dataclass
class Edit:
    """The intervention that cuts edges before the softmax, and multiplies attention after it.

    ``cut`` has the edges of each layer, [1 or B, T, T], true from a row to a key; ``heads`` are
    those in which they are cut, by default all. ``factor`` multiplies the attention from the row
    ``target`` to the ``label_words`` in all layers and heads, as exp(β) does ([A] eq. 9). If
    asked, ``weights`` keeps those of each layer, [B, H, T, T], with their graph. ``whole`` computes
    the matrix of every layer, also where nothing changes, so that runs differ by changes alone and
    not by the rounding of another way to compute attention.
    """

    cut: Mapping[int, Tensor] = field(default_factory=dict)
    heads: Collection[int] | None = None
    factor: float = 1.0
    target: int = -1
    label_words: tuple[int, ...] = ()
    keeps: bool = False
    whole: bool = False
    weights: dict[int, Tensor] = field(default_factory=dict)

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        """The layer's output, [B, H, T, D]."""
        edges = self.cut.get(call.layer)
        weighs = self.factor != 1 and len(self.label_words) > 0
        if edges is None and not (weighs or self.keeps or self.whole):
            return attention(call)
        weights = attention_rows(call, all_rows(call))
        if edges is not None:
            edges = edges.to(weights.device)
            without = attention_rows(call, all_rows(call), edges)
            here = edges.any(-1)[:, None, :, None]  # other rows stay as they are, bit by bit
            if bool((without.isnan() & here).any()):
                raise InputError(
                    "a token would have nothing left to attend to, since this model selects the "
                    "tokens that it attends to, and all of them are cut; cut fewer tokens."
                )
            if self.heads is not None:
                of_heads = torch.zeros_like(weights[0, :, :1, :1], dtype=torch.bool)
                of_heads[list(self.heads)] = True
                here = here & of_heads
            weights = torch.where(here, without, weights)
        if weighs:
            scale = torch.ones_like(weights[0, 0])
            scale[self.target, list(self.label_words)] = self.factor
            weights = weights * scale
        if self.keeps:
            if weights.is_leaf:
                weights.requires_grad_()
            weights.retain_grad()
            self.weights[call.layer] = weights
        return mixed_rows(call, weights).to(call.query.dtype)
