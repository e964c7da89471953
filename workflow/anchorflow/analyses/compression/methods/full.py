"""Every position."""

from anchorflow.analyses.compression.methods import Demonstrations, Kept, everywhere

ANY_BUDGET = False


def choose(demonstrations: Demonstrations, budget: int, draw: int) -> Kept:
    return everywhere(demonstrations, list(range(demonstrations.prefix.tokens)))
