"""The first four tokens and the last ones (StreamingLLM, Xiao et al. 2024)."""

from anchorflow.measure.compression_methods import Demonstrations, Kept, everywhere

ANY_BUDGET = True
SINKS = 4  # first tokens, which attract attention regardless of content


def choose(shown: Demonstrations, budget: int, draw: int) -> Kept:
    every = range(shown.prefix.tokens)
    budget = min(budget, len(every))
    first = min(SINKS, budget)
    return everywhere(shown, sorted({*every[:first], *every[len(every) - (budget - first) :]}))
