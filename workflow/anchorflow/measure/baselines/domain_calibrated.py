"""Label probabilities, divided by those for random words of the test texts (Fei et al. 2023)."""

from collections.abc import Sequence

import numpy as np

from anchorflow.arrays import Array
from anchorflow.measure.baselines import Observed
from anchorflow.measure.baselines.calibrated import calibrated

DRAWS = 20  # Fei et al. 2023, §4


def inputs(texts: Sequence[str], random: np.random.Generator) -> Sequence[str]:
    """Random words of the texts, as many as a text has on average, drawn 20 times.

    Words are what blanks separate; a text of nothing else is one. They are drawn with replacement,
    as often as they occur, from the test texts of the seed without their labels, as in the authors'
    code. Unlike there, the number is rounded, words keep their case, and no full stop is added.

    Source: Fei et al. 2023, "Mitigating Label Biases for In-Context Learning", §4.
    """
    words = [word for text in texts for word in text.split() or [text]]
    average = round(len(words) / len(texts))
    drawn = random.integers(len(words), size=(DRAWS, average))
    return [" ".join(words[place] for place in row) for row in drawn]


def predict(observed: Observed) -> Array:
    """Domain-context calibration: contextual calibration with these inputs."""
    return calibrated(observed.vanilla, observed.inputs)
