"""Everything in the first layers, and above these the first token alone (after Sia et al. 2024).

A budget is a number of tokens in every layer on average. The first layers that keep everything are
as many as it pays for: l layers keep P tokens each and the other L - l one each, so
l = ⌊L (budget - 1) / (P - 1)⌋.
"""

import torch

from anchorflow.measure.compression_methods import Demonstrations, Kept

ANY_BUDGET = True


def choose(shown: Demonstrations, budget: int, draw: int) -> Kept:
    layers, tokens = len(shown.prefix.layers), shown.prefix.tokens
    whole = layers if tokens == 1 else min(layers, layers * (budget - 1) // (tokens - 1))
    every = torch.arange(tokens)[None]
    return {layer: every if layer < whole else every[:, :1] for layer in shown.prefix.layers}
