"""Accuracy with nearest compared with random demonstrations ([K] §5)."""

from functools import partial

from anchorflow.summarize.claims._claim import Claim
from anchorflow.summarize.claims._effects import accuracy_over

READS = ("retrieval",)

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "retrieval_helps",
        "The nearest training texts are better demonstrations than random ones",
        "[K] §5",
        "accuracy with nearest minus with random demonstrations, paired",
        "accuracy",
        partial(accuracy_over, table="retrieval", column="choice", more="nearest", less="random"),
    ),
)
