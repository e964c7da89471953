"""Chosen training texts as demonstrations ([K] §4.2)."""

from collections.abc import Mapping
from typing import Any

from anchorflow.config.analysis import KERNEL, Analysis, Measured, Presented, Summary
from anchorflow.config.errors import InputError


def check(config: Mapping[str, Any]) -> None:
    """Refuse texts of another task in a run of one task."""
    if "other_task" in config["retrieval"]["choices"] and len(config["tasks"]) == 1:
        raise InputError(
            f"retrieval.choices: other_task takes texts of another task of the run, but "
            f"{next(iter(config['tasks']))} is the only one; add a task, or leave it out."
        )


ANALYSIS = Analysis(
    subject="the gain from chosen demonstrations in {}",
    category=KERNEL,
    measured=Measured(
        {"samples": "samples", "prompts": "prompts", "predictions": "retrieval"}, sharded=True
    ),
    summary=Summary(
        {
            "predictions": "retrieval/predictions",
            "retrieved": "retrieval/prompts",
            "prompts": "prompts",
        }
    ),
    figure=Presented("Chosen demonstrations", settings=("labels",)),
    table=Presented("Chosen demonstrations"),
    asked_for="retrieval.choices",
    check=check,
)
