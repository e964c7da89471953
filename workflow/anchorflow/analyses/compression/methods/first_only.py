"""The first token alone, as if there were no demonstrations."""

from anchorflow.analyses.compression.methods import Demonstrations, Kept, everywhere

ANY_BUDGET = False


def choose(demonstrations: Demonstrations, budget: int, draw: int) -> Kept:
    return everywhere(demonstrations, [0])
