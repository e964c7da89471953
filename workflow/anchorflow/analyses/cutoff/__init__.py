"""Context cutoff: from which layer on a model no longer needs the demonstrations."""

from anchorflow.config.analysis import CAUSES, Analysis, Measured, Presented, Summary

ANALYSIS = Analysis(
    subject="context cutoff in {}",
    category=CAUSES,
    measured=Measured(
        sharded=True,
        twins=True,
        message="Hiding the demonstrations of {task} from each layer on in {model}",
        scored=True,
    ),
    summary=Summary({"cutoff": "cutoff", "prompts": "prompts"}),
    figure=Presented("Context cutoff: layers that need the demonstrations", settings=("labels",)),
    table=Presented("Context cutoff: layers that need the demonstrations"),
    asked_for="cutoff.sees",
)
