"""Per head, the last tokens and what they attend to most (after SnapKV, Li et al. 2024).

The window of last tokens takes a quarter of the budget, at most 32 tokens, so that it suits
prefixes of a few hundred tokens. Unlike in the paper, it is at the end of the demonstrations,
because the query is not known yet. Query heads that share a key head vote together; votes are
averaged over five neighboring positions.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn.functional import avg_pool1d

from anchorflow.analyses.compression.methods import Demonstrations, Kept, largest

ANY_BUDGET = True
_WINDOW = 32  # largest observation window
_POOL = 5  # pooling kernel, which keeps neighbors of a chosen token together


def choose(demonstrations: Demonstrations, budget: int, draw: int) -> Kept:
    layers = len(demonstrations.prefix.layers)
    return voted(
        demonstrations,
        [budget] * layers,
        window_of(min(budget, demonstrations.prefix.tokens)),
        demonstrations.observed,
    )


def window_of(budget: int) -> int:
    """The number of last tokens that vote."""
    return min(_WINDOW, max(1, budget // 4))


def voted(
    demonstrations: Demonstrations,
    budgets: Sequence[int],
    window: int,
    votes_of: Mapping[int, Tensor],
) -> Kept:
    """The last tokens, and those with most votes, within the budget of each layer.

    ``votes_of`` is [H, W, P] by layer, of which a window of the last rows counts.
    """
    kept, tokens = {}, demonstrations.prefix.tokens
    for budget, (number, layer) in zip(budgets, demonstrations.prefix.layers.items(), strict=True):
        groups = layer.key.shape[1]
        seen = votes_of[number][:, -window:, :-window].unflatten(0, (groups, -1))
        votes = avg_pool1d(seen.sum(2).mean(1), _POOL, 1, _POOL // 2)
        chosen = largest(votes, min(budget, tokens) - window)
        last = torch.arange(tokens - window, tokens, device=votes.device)
        kept[number] = torch.cat([chosen, last.expand(groups, -1)], 1)
    return kept
