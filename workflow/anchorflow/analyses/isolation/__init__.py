"""Loyalty of predictions with label words isolated ([A] §2.2)."""

from anchorflow.config.analysis import (
    INFORMATION,
    Analysis,
    Measured,
    Presented,
    Summary,
    Tabulated,
)

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
    table=Tabulated(
        "Loyalty under isolation",
        note="Means over tasks and seeds with intervals over seeds, test texts and draws of random "
        "positions; demonstrations fixed per seed. The isolated positions cannot attend to earlier "
        "tokens in the first or last layers; layers is the number of these. label: label words; "
        "random: other tokens of the demonstrations; before and after: the tokens next to each "
        "label word; text: tokens of each text; hidden: none is isolated, but queries see the "
        "prompt's first token and the instruction alone.",
        index=("variant", "layers", "side", "positions"),
        averaged=True,
    ),
)
