"""Predictions from compressed demonstrations ([A] §3.2, Table 2)."""

from anchorflow.config.analysis import ANCHORS, Analysis, Measured, Presented, Summary

ANALYSIS = Analysis(
    subject="loyalty of {} with compressed demonstrations",
    category=ANCHORS,
    measured=Measured(sharded=True, twins=True),
    summary=Summary({"compression": "compression", "prompts": "prompts"}),
    figure=Presented("Compressed demonstrations (Table 2 of [A])", settings=("labels",)),
    table=Presented("Compressed demonstrations (Table 2 of [A])"),
)
