"""A logistic regression on attention to the label words, fitted to the training texts."""

import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from anchorflow.analyses.reweighting.baselines import Observed
from anchorflow.arrays import Array


def predict(observed: Observed) -> Array:
    return attention_regression(observed.features, observed.labels)(observed.attention)


def attention_regression(features: Array, labels: NDArray[np.int64]) -> Callable[[Array], Array]:
    """A logistic regression on attention to the label words.

    [A] eq. 6 taken literally, outside the model. Features are the attention from the target to the
    label words in all layers and heads, standardized; the penalty is scikit-learn's default. Given
    the attention [M, A] of training texts with ``labels`` [M], in which every class occurs, the
    result maps attention [B, A] to label probabilities [B, C].
    """
    regression = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    with warnings.catch_warnings():
        # scikit-learn suspects a regression where each of many labels has one text.
        warnings.filterwarnings("ignore", "The number of unique classes")
        regression.fit(features, labels)
    return lambda attention: np.asarray(regression.predict_proba(attention))
