"""Predictions without the heads of the highest scores."""

from collections.abc import Mapping
from typing import Any

from anchorflow.config.analysis import CAUSES, Analysis, Measured, Presented, Summary
from anchorflow.config.errors import InputError

_GROUPS = {
    "direct": "writing",
    "label_copy": "writing",
    "task_recognition_share": "task",
    "task_learning_share": "task",
    "gathers": "gathering",
    "to_right": "gathering",
}


def check(config: Mapping[str, Any]) -> None:
    """Refuse to take away heads by scores that are not measured."""
    names = [name for s in config["ablation"]["scores"] for name in s.split(" without ")]
    for score in names:
        group = _GROUPS.get(score, score)
        if group not in config["heads"]["scores"]:
            raise InputError(
                f"ablation.scores: {score} needs {group} among heads.scores; add it there, or "
                "leave the score out."
            )


ANALYSIS = Analysis(
    subject="predictions of {} without some of its heads",
    category=CAUSES,
    measured=Measured(
        message="Taking heads of {model} away for {task}",
        reads={"prompts": "prompts", "heads": "heads", "model": "models"},
    ),
    summary=Summary({"ablation": "ablation", "prompts": "prompts"}),
    figure=Presented("Heads taken away"),
    table=Presented("Heads taken away"),
    asked_for="ablation.scores",
    check=check,
)
