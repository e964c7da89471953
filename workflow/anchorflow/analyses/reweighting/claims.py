"""Whether re-weighting attention to label words improves accuracy ([A] §3.1)."""

from anchorflow.claims.claim import Claim, Control
from anchorflow.claims.effects import accuracy_over

READS = ("reweighting",)

CLAIMS = (
    Claim(
        "reweighting_over_vanilla",
        "Re-weighting attention to the label words improves accuracy",
        "[A] §3.1, Table 1",
        "accuracy with re-weighting minus that of plain in-context learning, paired",
        "accuracy",
        lambda run: accuracy_over(run, "reweighting", "reweighted", "vanilla"),
        Control(
            "plain in-context learning without each label's mean log probability over the training "
            "texts, in place of re-weighting",
            lambda run: accuracy_over(run, "reweighting", "bias_removed", "vanilla"),
        ),
        null="",
        figure="reweighting",
        question="Does re-weighting attention to label words raise accuracy?",
    ),
    Claim(
        "reweighting_over_many",
        "Re-weighting improves accuracy more than the same texts as further demonstrations",
        "[A] §3.1, Table 1",
        "accuracy with re-weighting minus that with more demonstrations, paired",
        "accuracy",
        lambda run: accuracy_over(run, "reweighting", "reweighted", "many"),
        Control.subtracted("the same texts as further demonstrations"),
        null="",
        figure="reweighting",
        stricter_than="reweighting_over_vanilla",
    ),
)
