"""Kernel regression with one head's attention compared with a constant ([K] §5.2 and §5.5)."""

import numpy as np
from numpy.typing import NDArray

from anchorflow.arrays import Array
from anchorflow.summarize.claims._claim import Claim, Control, Curve, Depth, Run, Sampled
from anchorflow.summarize.claims._effects import minus
from anchorflow.summarize.claims._heads import NO_OTHERS, candidates

Integers = NDArray[np.int64]

READS = ("kernel", "kernel_predictions")


def head_over_constant(run: Run) -> Sampled:
    """Held-out agreement of the best head minus that of a constant prediction.

    Head and constant are both chosen on one half of the texts and scored on the other. The constant
    is the label that the model predicts most often there with the seed's demonstrations.
    """
    heads = candidates(run)
    constant = {
        seed: agreement_of_constant(told, heads.half[seed])
        for seed, told in heads.predictions.items()
    }
    return minus(heads.held_out(heads.agreement, heads.best()), heads.held_out(constant))


def agreement_of_constant(predictions: Integers, half: Integers) -> Array:
    """1 where a prediction is the most frequent one of the other half, [examples, 1].

    NaN where the other half is empty.
    """
    agreement = np.full((len(predictions), 1), np.nan)
    for part in (0, 1):
        others = predictions[half != part]
        if len(others):
            here = half == part
            agreement[here, 0] = predictions[here] == np.bincount(others).argmax()
    return agreement


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "heads_reconstruct",
        "Attention of one head, as kernel weights, predicts what the model predicts",
        "[K] §5.5",
        "held-out agreement of the best head minus that of a held-out constant, the model's most "
        "frequent answer",
        "share of predictions agreeing",
        head_over_constant,
        Control("the constant, which the effect is the difference from"),
        undefined=NO_OTHERS,
        over_depth=Depth(
            "agreement of each layer's best head",
            (Curve("best head", "heads", {"measure": "agreement", "weights": "max"}),),
        ),
    ),
)
