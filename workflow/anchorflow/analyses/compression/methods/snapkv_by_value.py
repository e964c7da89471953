"""As snapkv, with attention times |W_O v|, the norm of what values write (after Feng et al. 2025).

The norm is that behind the output projection of each query head.
"""

from anchorflow.analyses.compression.methods import Demonstrations, Kept
from anchorflow.analyses.compression.methods.snapkv import voted, window_of

ANY_BUDGET = True
WRITES = True


def choose(demonstrations: Demonstrations, budget: int, draw: int) -> Kept:
    shown, budget = demonstrations, min(budget, demonstrations.prefix.tokens)
    votes = {layer: of * shown.written[layer][:, None] for layer, of in shown.observed.items()}
    return voted(shown, [budget] * len(votes), window_of(budget), votes)
