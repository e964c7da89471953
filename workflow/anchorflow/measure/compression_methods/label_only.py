"""All tokens of label words, and nothing else."""

from anchorflow.measure.compression_methods import Demonstrations, Kept, everywhere
from anchorflow.prepare.prompts import label_word_positions

ANY_BUDGET = False


def choose(shown: Demonstrations, budget: int, draw: int) -> Kept:
    return everywhere(shown, shown.within(set(label_word_positions(shown.prompt))))
