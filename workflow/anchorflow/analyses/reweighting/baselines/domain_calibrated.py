"""Label probabilities, divided by those for random words of the test texts (Fei et al. 2023)."""

from collections.abc import Sequence

import numpy as np

from anchorflow.analyses.reweighting.baselines import Observed
from anchorflow.analyses.reweighting.baselines.calibrated import calibrated
from anchorflow.arrays import Array

DRAWS = 20  # Fei et al. 2023, §4


def inputs(texts: Sequence[str], random: np.random.Generator) -> Sequence[str]:
    """Twenty inputs of random words of the texts, each as long as a text on average.

    Words are separated by white space; a text of white space alone is one word. They are drawn with
    replacement, in proportion to their frequency, from the seed's test texts without their labels,
    as in the authors' code. Unlike there, the length is rounded, words keep their case, and no full
    stop is added.

    Source: Fei et al. 2023, "Mitigating Label Biases for In-Context Learning", §4.
    """
    words = [word for text in texts for word in text.split() or [text]]
    average = round(len(words) / len(texts))
    drawn = random.integers(len(words), size=(DRAWS, average))
    return [" ".join(words[place] for place in row) for row in drawn]


def predict(observed: Observed) -> Array:
    """Domain-context calibration: contextual calibration with these inputs."""
    return calibrated(observed.vanilla, observed.inputs)
