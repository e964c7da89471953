"""Random whole demonstrations that fit the budget, labels balanced, as in the whole prompt."""

from anchorflow.analyses.compression.methods import Demonstrations, Kept
from anchorflow.analyses.compression.methods._whole_demonstrations import at_random

ANY_BUDGET = True
WHOLE = True
RANDOM = True


def choose(demonstrations: Demonstrations, budget: int, draw: int) -> Kept:
    return at_random(demonstrations, budget, draw, balanced=True, sink=True)
