"""Everything in the first layers, and above these the first token alone (after Sia et al. 2024).

The budget is the mean number of tokens per layer. If l layers keep P tokens each and the other
L - l layers one each, it allows l = ⌊L (budget - 1) / (P - 1)⌋.
"""

import torch

from anchorflow.analyses.compression.methods import Demonstrations, Kept

ANY_BUDGET = True


def choose(demonstrations: Demonstrations, budget: int, draw: int) -> Kept:
    layers, tokens = len(demonstrations.prefix.layers), demonstrations.prefix.tokens
    # With a single token, all layers keep everything, and the formula would divide by 0.
    whole = layers if tokens == 1 else min(layers, layers * (budget - 1) // (tokens - 1))
    every = torch.arange(tokens)[None]
    return {
        layer: every if layer < whole else every[:, :1] for layer in demonstrations.prefix.layers
    }
