"""As snapkv, with a budget that falls linearly with depth (PyramidKV, Cai et al. 2024).

Beyond the window, which is the same in all layers, the last layer keeps a twentieth of the mean,
and the first keeps what is then left for it, at most everything.
"""

from itertools import pairwise

import numpy as np

from anchorflow.analyses.compression.methods import Demonstrations, Kept
from anchorflow.analyses.compression.methods.snapkv import voted, window_of

ANY_BUDGET = True
_STEEPNESS = 20  # β in the authors' code


def choose(demonstrations: Demonstrations, budget: int, draw: int) -> Kept:
    tokens, layers = demonstrations.prefix.tokens, len(demonstrations.prefix.layers)
    budget = min(budget, tokens)
    window = window_of(budget)
    mean = budget - window
    most = min(2 * mean - mean / _STEEPNESS, tokens - window) if layers > 1 else mean
    # Sums are rounded, not the budgets themselves, so that they add up.
    sums = np.linspace(most, 2 * mean - most, layers).cumsum().round().astype(int).tolist()
    budgets = [window + after - before for before, after in pairwise([0, *sums])]
    return voted(demonstrations, budgets, window, demonstrations.observed)
