"""Confused labels and distances of their keys ([A] §3.3, eq. 11, Fig. 6, App. J)."""

from anchorflow.config.analysis import ANCHORS, Analysis, Measured, Presented, Summary

ANALYSIS = Analysis(
    subject="confused labels and key distances in {}",
    category=ANCHORS,
    measured=Measured(
        message="Measuring distances between the keys of label words of {task} in {model}"
    ),
    summary=Summary(
        {"predictions": "attention/predictions", "confusion": "confusion", "prompts": "prompts"}
    ),
    figure=Presented("Confused labels and key distances (Fig. 6 of [A])", settings=("labels",)),
    table=Presented("Confused labels and key distances"),
)
