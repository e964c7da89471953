"""All tokens of label words, without formatting."""

from anchorflow.analyses.compression.methods import Demonstrations, Kept, everywhere
from anchorflow.prepare.positions import label_word_positions

ANY_BUDGET = False


def choose(demonstrations: Demonstrations, budget: int, draw: int) -> Kept:
    return everywhere(
        demonstrations, demonstrations.within(set(label_word_positions(demonstrations.prompt)))
    )
