"""The last tokens."""

from anchorflow.measure.compression_methods import Demonstrations, Kept, everywhere

ANY_BUDGET = True


def choose(shown: Demonstrations, budget: int, draw: int) -> Kept:
    return everywhere(shown, list(range(shown.prefix.tokens))[-budget:])
