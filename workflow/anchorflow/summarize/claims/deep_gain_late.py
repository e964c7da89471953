"""How much of what attention to the label words tells is gained in deep layers ([A] §2.3)."""

from functools import partial

import numpy as np

from anchorflow.arrays import Array
from anchorflow.summarize.claims._claim import UNTRAINED, Claim, Curve, Depth
from anchorflow.summarize.claims._deep import TELLS_NOTHING, of_auc, other_tokens

READS = ("attention", "predictions", "prompts")


def late_gain(auc: Array) -> Array:
    """Σ (AUCROC_l − 0.5) over the upper half of the layers minus that over the lower half.

    Divided by half of the number of layers; with an odd number, the middle layer is in neither
    half. R_l is this sum up to l as a share of the total, a ratio of noise where attention tells
    nothing; where the total is above 0, the difference has the sign of 1 - 2 R_{L/2}.

    Source: Wang et al. 2023, eq. 5; deep layers are the upper half (footnote 2).
    """
    excess, half = np.nan_to_num(auc - 0.5), auc.shape[-1] // 2
    difference: Array = excess[..., -half:].mean(-1) - excess[..., :half].mean(-1)
    undefined = np.isnan(auc).all(-1)
    return np.where(undefined, np.nan, difference)[..., None]


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "deep_gain_late",
        "Most of what attention to the label words tells is gained in the upper half of the layers",
        "[A] §2.3",
        "mean AUCROC_l - 0.5 of the upper half of the layers minus that of the lower half",
        "AUC",
        partial(of_auc, effect=late_gain),
        other_tokens(late_gain),
        UNTRAINED,
        undefined=TELLS_NOTHING,
        over_depth=Depth("R_l", (Curve("R_l", "deep", {"measure": "cumulative"}),)),
        place=2,
    ),
)
