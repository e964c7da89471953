"""Correlations of many pairs at once, of ranks and of values."""

import numpy as np
from scipy.stats import rankdata

from anchorflow.arrays import Array


def rank_correlations(first: Array, second: Array, blocks: int = 1) -> Array:
    """Spearman's ρ over the last axis of two arrays [..., n]; NaN where one of them is constant.

    The last axis consists of ``blocks`` blocks of equal length. Mean ranks of blocks are
    subtracted, so that only differences within blocks count.
    """
    centered = []
    for values in (first, second):
        ranks = rankdata(values, axis=-1)
        of_blocks = ranks.reshape(*ranks.shape[:-1], blocks, -1)
        centered.append((of_blocks - of_blocks.mean(-1, keepdims=True)).reshape(ranks.shape))
    products = (centered[0] * centered[1]).sum(-1)
    norms = np.sqrt((centered[0] ** 2).sum(-1) * (centered[1] ** 2).sum(-1))
    found: Array = np.divide(products, norms, out=np.full(norms.shape, np.nan), where=norms > 0)
    return found


def correlations(weights: Array, similarity: Array) -> Array:
    """Pearson's correlation over the last axis, broadcast over the others.

    NaN where an input is constant, and for fewer than three values: two always give ±1.
    """
    if similarity.shape[-1] < 3:
        return np.full(np.broadcast_shapes(weights.shape, similarity.shape)[:-1], np.nan)
    a = weights - weights.mean(-1, keepdims=True)
    b = similarity - similarity.mean(-1, keepdims=True)
    scale = np.sqrt((a**2).sum(-1) * (b**2).sum(-1))
    covariance = (a * b).sum(-1)
    # Rounding leaves a constant row deviations from its mean, so its range is checked too.
    varies = (np.ptp(weights, -1) > 0) & (np.ptp(similarity, -1) > 0) & (scale > 0)
    r: Array = np.divide(covariance, scale, out=np.full(scale.shape, np.nan), where=varies)
    return r
