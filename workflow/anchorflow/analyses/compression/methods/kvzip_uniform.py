"""Per head, keys that get most attention while the model repeats the demonstrations (as kvzip).

Unlike in the paper, every layer and head keeps the same number of tokens.
"""

from anchorflow.analyses.compression.methods import Demonstrations, Kept, largest, sinks_first

ANY_BUDGET = True
REPEATS = True


def choose(demonstrations: Demonstrations, budget: int, draw: int) -> Kept:
    scores = demonstrations.repeated.items()
    return {number: largest(sinks_first(of), budget) for number, of in scores}
