"""What re-weighting is compared with, beside in-context learning as it is."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from anchorflow.statistics import Array


def calibrated(probabilities: Array, content_free: Array) -> Array:
    """Label probabilities, divided by those for inputs without content, and normalized.

    Parameters
    ----------
    probabilities : [B, C]
    content_free : [F, C]
        Label probabilities for each input without content; their mean counts.

    Returns
    -------
    Array
        [B, C], probabilities.

    Source: Zhao et al. 2021, "Calibrate Before Use", §4.
    """
    ratio = probabilities / content_free.mean(0)
    normalized: Array = ratio / ratio.sum(1, keepdims=True)
    return normalized


def attention_regression(features: Array, labels: NDArray[np.int64]) -> Callable[[Array], Array]:
    """A logistic regression on attention to the label words, fitted to the training texts.

    The reading of [A] eq. 6 without a model around it: attention from the target to the label
    words, in all layers and heads, standardized, with scikit-learn's default penalty.

    Parameters
    ----------
    features : [M, F]
        Attention to the label words for each training text.
    labels : [M], int
        Each class at least once.

    Returns
    -------
    function
        From attention [B, F] to label probabilities [B, C].
    """
    regression = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    regression.fit(features, labels)
    return lambda attention: np.asarray(regression.predict_proba(attention))
