"""How much of R_l is gained in late layers ([A] §2.3)."""

from dataclasses import replace

import numpy as np

from anchorflow.arrays import Array
from anchorflow.summarize.claims._claim import Claim, Curve, Depth, Run, Sampled
from anchorflow.summarize.claims._deep import TELLS_NOTHING, auc_by_seed
from anchorflow.summarize.claims._effects import sampled
from anchorflow.summarize.deep import cumulative_share

READS = ("attention", "predictions")


def late_gain(run: Run) -> Sampled:
    """Share of R_l gained in the upper half of the layers, minus a half.

    With an odd number of layers, half of the middle layer's gain counts. Over tasks, R_l is that of
    the mean AUC, as in the table ``deep``, since shares of a total near 0 cannot be averaged.
    """
    seeds, layers = auc_by_seed(run)
    upper = np.clip(np.arange(1, layers + 1) - layers / 2, 0, 1)

    def beyond_half(auc: Array) -> Array:
        gains = np.diff(cumulative_share(auc), axis=-1, prepend=0)
        beyond: Array = (gains @ upper)[..., None] - 0.5
        return beyond

    return replace(sampled(run, seeds), made=beyond_half)


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "deep_gain_late",
        "Most of what attention to the label words tells is gained in the upper half of the layers",
        "[A] §2.3",
        "share of R_l gained in the upper half of the layers, minus 0.5",
        "share of all that is gained",
        late_gain,
        f"{TELLS_NOTHING}, or attention to the label words does not tell which",
        bounded=False,
        over_depth=Depth("R_l", (Curve("R_l", "deep", {"measure": "cumulative"}),)),
        place=2,
    ),
)
