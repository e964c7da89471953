"""Activations of one prompt transplanted into another."""

from anchorflow.config.analysis import CAUSES, Analysis, Measured, Presented, Summary

ANALYSIS = Analysis(
    subject="activation transplants in {}",
    category=CAUSES,
    measured=Measured(
        sharded=True,
        twins=True,
        message="Transplanting activations between prompts of {task} in {model}",
        scored=True,
    ),
    summary=Summary({"transplant": "transplant", "prompts": "prompts"}),
    figure=Presented("Activation transplants from a prompt with other label words"),
    table=Presented("Activation transplants from a prompt with other label words"),
    asked_for="transplant.places",
)
