"""Accuracy with representative compared with random demonstrations ([K] §4.2).

The texts farthest from the centers of the clusters are chosen by the same embeddings, and are the
opposite. So they are the control, and random demonstrations are what both are compared with.
"""

from functools import partial

from anchorflow.summarize.claims._claim import Claim, Control
from anchorflow.summarize.claims._effects import accuracy_over

READS = ("retrieval",)

_over_random = partial(accuracy_over, table="retrieval", column="choice", less="random")

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "representative_helps",
        "Representative training texts are better demonstrations than random ones",
        "[K] §4.2",
        "accuracy with representative minus with random demonstrations, paired",
        "accuracy",
        partial(_over_random, more="representative"),
        Control(
            "outlying in place of representative demonstrations",
            partial(_over_random, more="outlying"),
        ),
        place=3,
    ),
)
