"""How far the confidence of answers is from their accuracy, and how far a prompt prefers labels.

The measures of StaICC (Cho and Inoue 2025), for every way of predicting.
"""

import numpy as np
import polars as pl

from anchorflow.arrays import Array, divided
from anchorflow.random_draws import generator
from anchorflow.statistics.estimates import Statistic

BINS = 10  # of equal width, as in StaICC
DRAWS = 100  # of the labels that perfectly calibrated probabilities would have
PARTS = BINS * (1 + DRAWS)


def gaps(rows: pl.DataFrame) -> Statistic:
    """Means over texts from which :func:`calibration_of_gaps` makes the measures, [R, PARTS].

    ``rows`` are of one way of predicting, one task, and one seed. In each bin, the mean over all
    texts of confidence minus whether the answer is right; and the same for every draw of right
    answers with the confidence as their probability. Seeds and ways share the draws of a text.
    """
    ordered = rows.sort("example")
    confidence = ordered["probabilities"].list.max().cast(pl.Float64).to_numpy()
    right = (ordered["prediction"] == ordered["label"]).to_numpy()
    drawn = [generator(text, "calibrated answers").random(DRAWS) for text in ordered["example"]]
    uniform = np.array(drawn).reshape(len(ordered), DRAWS)
    outcomes = np.column_stack([right, uniform < confidence[:, None]])  # [texts, 1 + DRAWS]
    of_bin = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gap = (confidence[:, None] - outcomes)[:, None] * np.eye(BINS)[of_bin][..., None]
    flat = gap.reshape(len(gap), PARTS)

    def statistic(weights: Array) -> Array:
        total = np.broadcast_to(weights.sum(1, keepdims=True), (len(weights), PARTS))
        return divided(weights @ flat, total, total > 0)

    return statistic


def calibration_of_gaps(parts: Array) -> Array:
    """``ece`` and ``ece_excess``, [..., 2], from :func:`gaps` averaged over seeds, [..., PARTS]."""
    by_draw = np.abs(parts.reshape(*parts.shape[:-1], BINS, 1 + DRAWS)).sum(-2)
    error, by_chance = by_draw[..., 0], by_draw[..., 1:].mean(-1)
    return np.stack([error, error - by_chance], -1)


def with_calibration(values: Array) -> Array:
    """Values whose last ones are those of :func:`gaps`, with both measures in place of these."""
    rest, parts = values[..., :-PARTS], values[..., -PARTS:]
    return np.concatenate([rest, calibration_of_gaps(parts)], -1)


def preference(probabilities: Array) -> float:
    """How far mean label probabilities, of [F, C] for F inputs, are from preferring no label.

    1 minus their entropy in units of that of equal ones: 0 for no preference, 1 for a single label.

    Source: Cho and Inoue 2025, "StaICC", contextual and domain bias, which give the entropy.
    """
    mean = probabilities.mean(0)
    known = mean[mean > 0]
    return float(1 + (known * np.log(known)).sum() / np.log(len(mean)))
