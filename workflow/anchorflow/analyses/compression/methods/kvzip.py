"""Keys that get most attention while the model repeats the demonstrations (KVzip, Kim et al. 2025).

The budget is that of all layers and heads together, so that some keep more than others. The first
four tokens are always kept. Of the query heads that share a key head, and of the tokens repeated,
the most attention counts.
"""

import torch

from anchorflow.analyses.compression.methods import Demonstrations, Kept, padded, sinks_first

ANY_BUDGET = True
REPEATS = True


def choose(demonstrations: Demonstrations, budget: int, draw: int) -> Kept:
    scores = {n: sinks_first(of).cpu() for n, of in demonstrations.repeated.items()}
    every = torch.cat([of.flatten() for of in scores.values()])
    heads = len(every) // demonstrations.prefix.tokens
    chosen = torch.zeros(len(every), dtype=torch.bool)
    chosen[every.topk(min(budget * heads, len(every))).indices] = True
    parts = chosen.split([of.numel() for of in scores.values()])
    return {
        n: padded(part.view_as(of)) for (n, of), part in zip(scores.items(), parts, strict=True)
    }
