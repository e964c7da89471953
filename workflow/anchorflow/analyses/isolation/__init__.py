"""Loyalty of predictions with label words isolated ([A] §2.2)."""

from anchorflow.config.analysis import INFORMATION, Analysis, Measured, Presented, Summary

ANALYSIS = Analysis(
    subject="the loyalty of {} under isolation",
    category=INFORMATION,
    measured=Measured(
        sharded=True,
        twins=True,
        message="Isolating label words of {task} in {model}",
        scored=True,
    ),
    summary=Summary({"isolation": "isolation", "prompts": "prompts"}),
    figure=Presented("Loyalty under isolation (Fig. 4 of [A])", settings=("labels",)),
    table=Presented("Loyalty under isolation"),
)
