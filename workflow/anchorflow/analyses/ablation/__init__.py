"""Predictions without the heads of the highest scores."""

from anchorflow.config.analysis import CAUSES, Analysis, Measured, Presented, Summary

ANALYSIS = Analysis(
    subject="predictions of {} without some of its heads",
    category=CAUSES,
    measured=Measured(twins=True),
    summary=Summary({"ablation": "ablation", "prompts": "prompts"}),
    figure=Presented("Heads taken away"),
    table=Presented("Heads taken away"),
    asked_for="ablation.scores",
)
