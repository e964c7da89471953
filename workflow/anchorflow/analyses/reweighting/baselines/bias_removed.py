"""Label probabilities without each label's mean log probability over the training texts."""

import numpy as np

from anchorflow.analyses.reweighting.baselines import Observed
from anchorflow.arrays import Array


def predict(observed: Observed) -> Array:
    return without_bias(observed.vanilla, observed.training)


def without_bias(probabilities: Array, unscored: Array) -> Array:
    """Label probabilities whose logarithms are 0 on average over other texts, and normalized.

    A model may prefer a label with every text of a prompt's demonstrations, which says nothing of
    what it has learnt from them. Neither labels nor test texts are used. ``unscored``, [M, C], are
    the label probabilities of other texts with the same demonstrations as those of
    ``probabilities``, [T, C].
    """
    with np.errstate(divide="ignore"):  # a probability of 0 is reported as not finite
        logarithms = np.log(probabilities) - np.log(unscored).mean(0)
    shifted = np.exp(logarithms - logarithms.max(1, keepdims=True))
    normalized: Array = shifted / shifted.sum(1, keepdims=True)
    return normalized
