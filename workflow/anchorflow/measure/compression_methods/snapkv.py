"""Per head, what the last tokens attend to most, and these (after SnapKV, Li et al. 2024).

The window of last tokens is a quarter of the budget, at most 32, so that it fits prefixes of a few
hundred tokens. Unlike in the paper, it is at the end of the demonstrations, because the query is
not known yet. Query heads that share a key head vote together; votes are averaged over five
neighboring positions.
"""

import torch
from torch.nn.functional import avg_pool1d

from anchorflow.measure.compression_methods import Demonstrations, Kept, largest

ANY_BUDGET = True
_WINDOW = 32  # SnapKV's observation window, at most
_POOL = 5  # its pooling kernel


def choose(shown: Demonstrations, budget: int, draw: int) -> Kept:
    budget = min(budget, shown.prefix.tokens)
    window = min(_WINDOW, max(1, budget // 4))
    kept = {}
    for number, layer in shown.prefix.layers.items():
        groups = layer.key.shape[1]
        seen = shown.observed[number][:, -window:, :-window].unflatten(0, (groups, -1))
        votes = avg_pool1d(seen.sum(2).mean(1), _POOL, 1, _POOL // 2)
        chosen = largest(votes, min(budget - window, votes.shape[1]))
        last = torch.arange(shown.prefix.tokens - window, shown.prefix.tokens, device=votes.device)
        kept[number] = torch.cat([chosen, last.expand(groups, -1)], 1)
    return kept
