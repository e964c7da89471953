"""The demonstrations that all prompts of a seed share, run once for all of them.

Keys and values of the shared tokens are computed with batch size one; every batch of queries then
attends to them without a copy per example. Nothing else changes: the queries keep their true
positions, so logits and attention are those of the full prompts, up to rounding.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

import polars as pl
import torch
from torch import Tensor
from transformers import PreTrainedModel

from anchorflow.model.attention_function import (
    PADDING,
    Attention,
    AttentionCall,
    Intervention,
    LayerPrefix,
    Positions,
    check_layers,
    intervene,
)
from anchorflow.model.layer_kinds import attention_layers, runs_again
from anchorflow.model.layers import Resumed, resume, run_layers
from anchorflow.model.run_again import Preceding, hidden_states


@dataclass(frozen=True)
class Prefix:
    """Keys and values of the shared tokens in every layer, an intervention on the queries.

    ``tokens`` counts all shared tokens, also after :meth:`keep`; ``kept`` are the positions of
    those that are kept, if they are the same in every layer and head.
    """

    tokens: int
    layers: Mapping[int, LayerPrefix]
    kept: Tensor | None = None  # [K], on the CPU
    preceding: Preceding | None = None  # what runs again before queries, for the state it leaves

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        """Let the queries attend to the prefix too; [B, H, T, D]."""
        if self.preceding is None:
            return self.attend_after(call, attention)
        return self.preceding.attend_with(call, lambda own: self.attend_after(own, attention))

    def attend_after(self, call: AttentionCall, attention: Attention) -> Tensor:
        """The output of the queries alone."""
        layer = self.layers[call.layer]
        if layer.positions is None:
            return attention(replace(call, prefix=layer))
        unshared = torch.arange(
            self.tokens, self.tokens + call.key.shape[2], device=call.key.device
        )
        key = torch.cat([layer.positions, unshared.expand(len(layer.positions), -1)], 1)
        positions = Positions(unshared[None, -call.query.shape[2] :], key[None])
        return attention(replace(call, prefix=layer, positions=positions))

    def keep(self, kept: Mapping[int, Tensor]) -> "Prefix":
        """The prefix with the keys and values of only some of its tokens.

        ``kept`` has the increasing positions to keep in each layer, [1 or G, K], for all key heads
        or for each one. Heads that keep fewer than others have ``PADDING`` after them, which no
        query sees. If they are the first tokens alone, the state that queries find is theirs as
        well; otherwise, it remains that of all tokens.
        """
        first, *others = kept.values()
        whole = all(at.shape[1] == self.tokens and at.max() < PADDING for at in kept.values())
        if whole and len(kept) == len(self.layers):
            return self  # bit by bit, whichever keys a sliding window would skip
        alike = len(first) == 1 and all(torch.equal(other, first) for other in others)
        layers = {number: _some(self.layers[number], at) for number, at in kept.items()}
        preceding = self.preceding
        everywhere = alike and len(kept) == len(self.layers)
        if preceding and everywhere and (first[0].diff(prepend=first.new_tensor([-1])) == 1).all():
            preceding = Preceding.shared(preceding.token_ids[:, : first.shape[1]])
        kept_alike = first[0].cpu() if alike else None
        return replace(self, layers=layers, kept=kept_alike, preceding=preceding)

    def first(self, tokens: int) -> "Prefix":
        """The prefix of the first ``tokens`` tokens only, from a prefix with everything kept."""
        some = {n: of.map(lambda kept: kept[:, :, :tokens]) for n, of in self.layers.items()}
        preceding = self.preceding and Preceding.shared(self.preceding.token_ids[:, :tokens])
        return Prefix(tokens, some, preceding=preceding)

    def keys_of(self, positions: Tensor) -> Tensor:
        """Index of the key at each position, in every layer and head; positions of any shape.

        Each position must be kept, and all layers and heads must keep the same positions.
        """
        if all(layer.positions is None for layer in self.layers.values()):
            return positions
        if self.kept is None:
            raise ValueError("layers or heads keep different positions")
        left, wanted = self.kept, positions.cpu().contiguous()
        keys = torch.searchsorted(left, wanted)
        beyond = wanted >= self.tokens
        if not (beyond | (left[keys.clamp(max=len(left) - 1)] == wanted)).all():
            raise ValueError("a position was not kept")
        return torch.where(beyond, wanted - self.tokens + len(left), keys).to(positions.device)

    @property
    def bytes(self) -> int:
        return sum(layer.key.nbytes + layer.value.nbytes for layer in self.layers.values())


def _some(layer: LayerPrefix, positions: Tensor) -> LayerPrefix:
    positions = positions.to(layer.key.device)
    there = positions.clamp(max=layer.tokens - 1)  # of padding, any key, since none sees it
    at = there.expand(layer.key.shape[1], -1)[None, :, :, None]

    def some(kept: Tensor) -> Tensor:  # values may have other dimensions than keys
        return kept.gather(2, at.expand(-1, -1, -1, kept.shape[3]))

    return replace(layer.map(some), positions=positions)


class KeepKeys:
    """The intervention that keeps the keys and values of every layer, except those of a prefix."""

    def __init__(self) -> None:
        self._layers: dict[int, LayerPrefix] = {}

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        self._layers[call.layer] = LayerPrefix(call.key, call.value).map(Tensor.contiguous)
        return attention(call)

    def of_every_layer(
        self, model: PreTrainedModel, below: Mapping[int, LayerPrefix] | None = None
    ) -> dict[int, LayerPrefix]:
        """The kept keys and values, in addition to those of the layers ``below``."""
        layers = {**(below or {}), **self._layers}
        check_layers(layers, len(attention_layers(model.config)), "keys", "are")
        return layers


def shared_token_ids(prompts: pl.DataFrame) -> list[int]:
    """The tokens with which all prompts begin, at most up to the first token of a query."""
    first, *others = prompts["token_ids"].to_list()
    length: int = min(prompts["query_start"])
    for token_ids in others:
        while token_ids[:length] != first[:length]:
            length -= 1
    return list(first[:length])


def compute_prefix(
    model: PreTrainedModel,
    token_ids: Sequence[int],
    *interventions: Intervention,
    resumed: Resumed | None = None,
    below: Prefix | None = None,
    differentiable: bool = False,
    observing: Sequence[Intervention] = (),
) -> Prefix:
    """Run the shared tokens once and keep their keys and values.

    ``interventions`` are active during this run, on the demonstrations; those that are
    ``observing`` change nothing. Where an earlier run is ``resumed``, the layers ``below`` are
    those of its prefix, which must be unchanged. If ``differentiable``, the graph is kept from the
    token embeddings to the keys and values.

    In a model that carries a state, the tokens run again before queries, under the same
    ``interventions`` and with the same output of the layer that is resumed.
    """
    kept = KeepKeys()
    input_ids = torch.tensor([token_ids], device=model.device)
    with (
        intervene(kept, *observing, *interventions),
        resume(model, resumed) if resumed else nullcontext(),
    ):
        run_layers(model, input_ids, differentiable=differentiable)
    preceding = None
    if runs_again(model.config):
        put = (resumed.layer, hidden_states(resumed.output)[0]) if resumed else None
        preceding = Preceding.shared(input_ids, interventions, put)
    layers = kept.of_every_layer(model, below.layers if below else None)
    return Prefix(len(token_ids), layers, preceding=preceding)
