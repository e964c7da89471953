"""The first four tokens and the last ones (StreamingLLM, Xiao et al. 2024)."""

from anchorflow.analyses.compression.methods import SINKS, Demonstrations, Kept, everywhere

ANY_BUDGET = True


def choose(demonstrations: Demonstrations, budget: int, draw: int) -> Kept:
    every = range(demonstrations.prefix.tokens)
    budget = min(budget, len(every))
    first = min(SINKS, budget)
    return everywhere(
        demonstrations, sorted({*every[:first], *every[len(every) - (budget - first) :]})
    )
