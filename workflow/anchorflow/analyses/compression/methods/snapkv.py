"""Per head, the last tokens and what they attend to most (after SnapKV, Li et al. 2024).

The window of last tokens takes a quarter of the budget, at most 32 tokens, so that it suits
prefixes of a few hundred tokens. Unlike in the paper, it is at the end of the demonstrations,
because the query is not known yet. Query heads that share a key head vote together; votes are
averaged over five neighboring positions.
"""

import torch
from torch.nn.functional import avg_pool1d

from anchorflow.analyses.compression.methods import Demonstrations, Kept, largest

ANY_BUDGET = True
_WINDOW = 32  # largest observation window
_POOL = 5  # pooling kernel, which keeps neighbors of a chosen token together


def choose(demonstrations: Demonstrations, budget: int, draw: int) -> Kept:
    budget = min(budget, demonstrations.prefix.tokens)
    window = min(_WINDOW, max(1, budget // 4))
    kept = {}
    for number, layer in demonstrations.prefix.layers.items():
        groups = layer.key.shape[1]
        seen = demonstrations.observed[number][:, -window:, :-window].unflatten(0, (groups, -1))
        votes = avg_pool1d(seen.sum(2).mean(1), _POOL, 1, _POOL // 2)
        chosen = largest(votes, min(budget - window, votes.shape[1]))
        last = torch.arange(
            demonstrations.prefix.tokens - window, demonstrations.prefix.tokens, device=votes.device
        )
        kept[number] = torch.cat([chosen, last.expand(groups, -1)], 1)
    return kept
