"""Baselines of re-weighting, in addition to plain in-context learning.

Each file in this folder is one baseline of the same name. To add one, add a file with

- a docstring whose first paragraph is one sentence that describes the baseline; it becomes part
  of the configuration's documentation,
- ``fit(observed)``, of type :data:`Baseline`.

The names ``vanilla``, ``many``, and all that begin with ``reweighted`` are reserved.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anchorflow.arrays import Array
from anchorflow.config.registry import load

FOLDER = "measure/baselines"


class Observed(NamedTuple):
    """What a baseline can be fitted to, for one model, task, and seed."""

    content_free: Array  # [F, C], label probabilities for inputs without content
    features: Array  # [M, A], attention to the label words for each training text
    labels: NDArray[np.int64]  # [M], of the training texts; each class at least once


# From vanilla probabilities [B, C] and attention [B, A] to probabilities [B, C].
Predict = Callable[[Array, Array], Array]
Baseline = Callable[[Observed], Predict]


def baseline(name: str) -> Baseline:
    """The baseline of this name, from its file."""
    fit: Baseline = load(FOLDER, name).fit
    return fit
