"""Predictions with edges of attention cut, by class and layer."""

from anchorflow.config.analysis import CAUSES, Analysis, Measured, Presented, Summary

ANALYSIS = Analysis(
    subject="the effect of cutting attention edges in {}",
    category=CAUSES,
    measured=Measured(
        sharded=True,
        twins=True,
        message="Cutting edges of attention of {task} in {model}",
        scored=True,
    ),
    summary=Summary({"knockout": "knockout", "prompts": "prompts"}),
    figure=Presented("Edges of attention cut"),
    table=Presented("Edges of attention cut"),
    asked_for="knockout.classes",
)
