"""Whole demonstrations nearest to each query that fit the budget, as in the whole prompt.

Texts are as similar as BM25 over their tokens says.
"""

from anchorflow.analyses.compression.methods import Demonstrations, Kept
from anchorflow.analyses.compression.methods._whole_demonstrations import nearest

ANY_BUDGET = True
WHOLE = True
PER_QUERY = True


def choose(demonstrations: Demonstrations, budget: int, draw: int) -> Kept:
    return nearest(demonstrations, budget, sink=True)
