"""Accuracy with random demonstrations compared with texts of another task ([K] §4.2).

Texts of another task are out of distribution, and the labels beside them tell nothing. So the
control is what is lost with the labels alone, where they are shuffled among the same texts.
"""

from functools import partial

from anchorflow.summarize.claims._claim import Claim, Control
from anchorflow.summarize.claims._effects import accuracy_over

READS = ("retrieval",)

_over = partial(accuracy_over, table="retrieval", column="choice", more="random")

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "in_distribution_helps",
        "Texts of the task are better demonstrations than texts of another one",
        "[K] §4.2",
        "accuracy with random demonstrations minus with texts of another task, paired",
        "accuracy",
        partial(_over, less="other_task"),
        Control(
            "the same texts with their labels shuffled, in place of texts of another task",
            partial(_over, less="random_labels"),
        ),
        place=2,
    ),
)
