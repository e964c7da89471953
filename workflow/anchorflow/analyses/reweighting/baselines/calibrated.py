"""Label probabilities, divided by those for inputs without content (Zhao et al. 2021)."""

from collections.abc import Sequence

import numpy as np

from anchorflow.analyses.reweighting.baselines import Observed
from anchorflow.arrays import Array

CONTENT_FREE = ("N/A", "", "[MASK]")  # Zhao et al. 2021, §4


def inputs(texts: Sequence[str], random: np.random.Generator) -> Sequence[str]:
    return CONTENT_FREE


def predict(observed: Observed) -> Array:
    return calibrated(observed.vanilla, observed.inputs)


def calibrated(probabilities: Array, content_free: Array) -> Array:
    """Label probabilities, divided by those for inputs without content, and normalized.

    ``probabilities`` are [T, C]. Those for each input without content, [F, C], are averaged.

    Source: Zhao et al. 2021, "Calibrate Before Use", §4.
    """
    ratio = probabilities / content_free.mean(0)
    normalized: Array = ratio / ratio.sum(1, keepdims=True)
    return normalized
