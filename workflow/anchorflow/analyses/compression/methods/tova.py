"""Per layer, what the last token attends to most (after TOVA, Oren et al. 2024).

Unlike in the paper, this is the last token of the demonstrations, because the query is not known
yet. Attention is averaged over heads.
"""

from anchorflow.analyses.compression.methods import Demonstrations, Kept, largest

ANY_BUDGET = True


def choose(demonstrations: Demonstrations, budget: int, draw: int) -> Kept:
    return {
        layer: largest(rows[:, -1].mean(0, keepdim=True), budget)
        for layer, rows in demonstrations.observed.items()
    }
