"""Accuracy of re-weighting compared with plain in-context learning ([A] Table 1)."""

from functools import partial

from anchorflow.summarize.claims._claim import Claim, Control
from anchorflow.summarize.claims._effects import accuracy_over

READS = ("reweighting",)

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "reweighting_over_vanilla",
        "Re-weighting attention to the label words makes answers more accurate",
        "[A] §3.1, Table 1",
        "accuracy re-weighted minus as it is, paired",
        "accuracy",
        partial(
            accuracy_over, table="reweighting", column="method", more="reweighted", less="vanilla"
        ),
        Control("the model as it is, which the effect is the difference from"),
        place=1,
    ),
)
