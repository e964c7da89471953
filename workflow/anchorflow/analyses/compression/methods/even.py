"""Evenly spaced tokens, including the first and the last."""

import numpy as np

from anchorflow.analyses.compression.methods import Demonstrations, Kept, everywhere

ANY_BUDGET = True


def choose(demonstrations: Demonstrations, budget: int, draw: int) -> Kept:
    budget = min(budget, demonstrations.prefix.tokens)
    spaced = np.linspace(0, demonstrations.prefix.tokens - 1, budget).round().astype(int)
    return everywhere(demonstrations, sorted(set(spaced.tolist())))
