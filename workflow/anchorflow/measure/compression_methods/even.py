"""Tokens at even distances, the first and the last among them."""

import numpy as np

from anchorflow.measure.compression_methods import Demonstrations, Kept, everywhere

ANY_BUDGET = True


def choose(shown: Demonstrations, budget: int, draw: int) -> Kept:
    budget = min(budget, shown.prefix.tokens)
    spaced = np.linspace(0, shown.prefix.tokens - 1, budget).round().astype(int)
    return everywhere(shown, sorted(set(spaced.tolist())))
