"""Accuracy of re-weighting compared with its texts as demonstrations ([A] Table 1)."""

from functools import partial

from anchorflow.summarize.claims._claim import Claim, Control
from anchorflow.summarize.claims._effects import accuracy_over

READS = ("reweighting",)

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "reweighting_over_many",
        "Re-weighting does more than the same texts as further demonstrations",
        "[A] §3.1, Table 1",
        "accuracy re-weighted minus with more demonstrations, paired",
        "accuracy",
        partial(
            accuracy_over, table="reweighting", column="method", more="reweighted", less="many"
        ),
        Control("the same texts as demonstrations, which the effect is the difference from"),
        place=2,
    ),
)
