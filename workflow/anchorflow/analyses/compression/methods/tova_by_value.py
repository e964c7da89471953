"""As tova, with attention times |W_O v|, the norm of what values write (after Guo et al. 2024).

The norm is that behind the output projection of each query head.
"""

from anchorflow.analyses.compression.methods import Demonstrations, Kept, largest

ANY_BUDGET = True
WRITES = True


def choose(demonstrations: Demonstrations, budget: int, draw: int) -> Kept:
    return {
        layer: largest((rows[:, -1] * demonstrations.written[layer]).mean(0, keepdim=True), budget)
        for layer, rows in demonstrations.observed.items()
    }
