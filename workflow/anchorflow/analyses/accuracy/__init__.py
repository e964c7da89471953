"""Accuracy of plain in-context learning, and skipped prompts."""

from anchorflow.config.analysis import ACCURACY, Analysis, Presented, Summary

ANALYSIS = Analysis(
    subject="the accuracy of {}",
    category=ACCURACY,
    summary=Summary({"predictions": "attention/predictions", "prompts": "prompts"}),
    table=Presented("Accuracy and skipped prompts"),
)
