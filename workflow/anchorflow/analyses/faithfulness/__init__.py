"""How well saliency and attention predict the effect of cutting edges."""

from collections.abc import Mapping
from typing import Any

from anchorflow.config.analysis import CAUSES, Analysis, Measured, Presented, Summary
from anchorflow.config.errors import InputError


def check(config: Mapping[str, Any]) -> None:
    """Refuse to compare saliency with cuts that are not made."""
    cut, wanted = config["knockout"], config["faithfulness"]["classes"]
    for name in wanted:
        if name not in cut["classes"]:
            raise InputError(
                f"faithfulness.classes: {name} is not among knockout.classes, so there is nothing "
                "to compare it with; add it there, or leave it out."
            )
    if wanted and "single" not in cut["layers"]:
        raise InputError(
            "knockout.layers: faithfulness compares saliency with cutting edges in single layers, "
            "which are not listed; add single, or leave faithfulness.classes empty."
        )


ANALYSIS = Analysis(
    subject="how well saliency predicts the effect of cutting edges in {}",
    category=CAUSES,
    measured=Measured(
        sharded=True,
        twins=True,
        follows="knockout",
        message="Measuring saliency of cut edges of {task} in {model}",
    ),
    summary=Summary({"faithfulness": "faithfulness", "knockout": "knockout", "prompts": "prompts"}),
    figure=Presented("Saliency and attention compared with cutting edges"),
    table=Presented("Saliency and attention compared with cutting edges"),
    asked_for="faithfulness.classes",
    check=check,
)
