"""Formatting alone."""

from anchorflow.measure.compression_methods import Demonstrations, Kept, everywhere

ANY_BUDGET = False


def choose(shown: Demonstrations, budget: int, draw: int) -> Kept:
    return everywhere(shown, shown.within(set(shown.prompt["format_positions"])))
