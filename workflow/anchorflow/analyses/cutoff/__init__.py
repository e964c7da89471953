"""Context cutoff: from which layer on a model no longer needs the demonstrations."""

from anchorflow.config.analysis import CAUSES, Analysis, Measured, Presented, Summary, Tabulated

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
    table=Tabulated(
        "Layers that need the demonstrations",
        note="Means over seeds with intervals over seeds and test texts; demonstrations fixed per "
        "seed. From this layer on, queries see, first: only the prompt's first token and the "
        "instruction; label: these and the label words; random: these and the same number of "
        "random tokens.",
        index=("task",),
        column="sees",
        measure="needed",
    ),
    asked_for="cutoff.sees",
)
