"""Routing of attention by principal directions, beside weights β (Li et al. 2025).

In-Context Routing adds a low-rank term to the logits of attention, from principal directions of the
queries and keys of in-context prompts. Its coefficients are fitted like β, to the same texts with
the same optimizer. As published, a router predicts them from the text after training on several
data sets, and applies them without demonstrations; here they are those of one task, for every text
alike, and change the target's row of prompts with demonstrations, as β does.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel

from anchorflow.model.attention_function import Attention, AttentionCall, intervene
from anchorflow.model.last_tokens import LastTokens


class Directions(NamedTuple):
    """The first r principal directions of each layer that attends, shared by its heads.

    Scaled, so that coordinates of the queries and keys that they are of have a mean square of 1,
    and α is in units of logits as β is.
    """

    query: tuple[Tensor, ...]  # of each layer [D, r]
    key: tuple[Tensor, ...]  # of each layer [D, r]

    @property
    def rank(self) -> int:
        """Their number r."""
        return self.query[0].shape[1]

    def start(self, heads: int) -> Tensor:
        """Coefficients that change nothing, [L, r + H]: each α is 0, and each gate 1."""
        layers = len(self.query)
        return torch.cat([torch.zeros(layers, self.rank), torch.ones(layers, heads)], 1)


@dataclass(frozen=True)
class Routing:
    """Coefficients α of directions and gates γ of heads, [L, r + H] or [B, L, r + H]."""

    coefficients: Tensor
    directions: Directions


class Route:
    """The intervention that adds γ_h (q U) diag(α) (k U')ᵀ to the target's logits of attention.

    q and k are a query and a key as attention multiplies them, after positions are encoded. The
    term is added before the softmax, and before a cap of logits where a model has one. Since it is
    linear in k, adding γ_h (q U) diag(α) U'ᵀ / scaling to the query gives the same logits.

    Source: Li et al. 2025, "Towards Generalizable Implicit In-Context Learning with Attention
    Routing", §3.
    """

    def __init__(self, routing: Routing, rows: Tensor) -> None:
        self._routing, self._rows = routing, rows

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        """The layer's output, [B, H, T, D], changed in the target's row only."""
        query, directions = call.query, self._routing.directions
        of_query, of_key = (
            each[call.layer].to(query.device) for each in (directions.query, directions.key)
        )
        here = self._routing.coefficients[..., call.layer, :].to(query.device)
        alpha, gate = here.split([directions.rank, query.shape[1]], -1)  # [r] or [B, r]; H alike
        at = self._rows.to(query.device)[:, None, None, None]
        at = at.expand(-1, query.shape[1], 1, query.shape[3])
        row = query.gather(2, at)  # [B, H, 1, D]
        routed = (row.float() @ of_query * alpha[..., None, None, :]) @ of_key.T / call.scaling
        added = gate[..., :, None, None] * routed
        changed = query.scatter(2, at, row + added.to(row.dtype))
        return attention(replace(call, query=changed))


class _Record:
    """The intervention that records the queries and keys of last tokens, in every layer."""

    def __init__(self) -> None:
        self.query: dict[int, Tensor] = {}
        self.key: dict[int, Tensor] = {}

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        """The same output."""
        self.query[call.layer], self.key[call.layer] = call.query[:, :, -1], call.key[:, :, -1]
        return attention(call)


@torch.no_grad()
def principal_directions(model: PreTrainedModel, tokens: LastTokens, rank: int) -> Directions:
    """The principal directions of the queries and of the keys of last tokens, by layer.

    Those of all heads, or groups, of all prompts are centered together. There are fewer than
    ``rank`` if there are fewer of them, or numbers in each.
    """
    recorded = _Record()
    with intervene(tokens, recorded):
        tokens.states(model)
    sides = []
    for side in (recorded.query, recorded.key):
        found = []
        for layer in sorted(side):
            rows = side[layer].flatten(0, 1).float().cpu()  # [B · H, D]
            axes = torch.linalg.svd(rows - rows.mean(0), full_matrices=False).Vh.T
            size = (rows @ axes).square().mean(0).sqrt()
            found.append(axes / size.clamp(min=torch.finfo(size.dtype).eps))
        sides.append(found)
    common = min(rank, *(each.shape[1] for side in sides for each in side))
    query, key = (tuple(each[:, :common].contiguous() for each in side) for side in sides)
    return Directions(query, key)
