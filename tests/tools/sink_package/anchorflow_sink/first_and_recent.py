"""The first token and the last ones."""

from anchorflow.analyses.compression.methods import Demonstrations, Kept, everywhere

ANY_BUDGET = True


def choose(demonstrations: Demonstrations, budget: int, draw: int) -> Kept:
    """The first token, on which attention sinks, and the last ones of the budget."""
    every = list(range(demonstrations.prefix.tokens))
    return everywhere(demonstrations, sorted({0, *every[len(every) - budget + 1 :]}))
