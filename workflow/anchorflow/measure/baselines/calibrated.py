"""Label probabilities, divided by those for inputs without content (Zhao et al. 2021)."""

from anchorflow.arrays import Array
from anchorflow.measure.baselines import Observed, Predict


def fit(observed: Observed) -> Predict:
    return lambda vanilla, attention: calibrated(vanilla, observed.content_free)


def calibrated(probabilities: Array, content_free: Array) -> Array:
    """Label probabilities, divided by those for inputs without content, and normalized.

    Parameters
    ----------
    probabilities : [B, C]
    content_free : [F, C]
        Label probabilities for each input without content, which are averaged.

    Returns
    -------
    Array
        [B, C], probabilities.

    Source: Zhao et al. 2021, "Calibrate Before Use", §4.
    """
    ratio = probabilities / content_free.mean(0)
    normalized: Array = ratio / ratio.sum(1, keepdims=True)
    return normalized
