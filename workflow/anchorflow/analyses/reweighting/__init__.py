"""Re-weighted attention to label words, β, and its baselines ([A] §3.1, Table 1)."""

from collections.abc import Mapping
from typing import Any

from anchorflow.config.analysis import ANCHORS, Analysis, Measured, Presented, Summary
from anchorflow.config.errors import InputError


def check(config: Mapping[str, Any]) -> None:
    """Refuse numbers of texts that leave nothing to choose by, or to add."""
    spec, fixed = config["reweighting"], config["demonstrations_per_label"]
    most = fixed + spec["examples_per_label"]
    if len(spec["learning_rates"]) > 1 and spec["examples_per_label"] < 2:
        raise InputError(
            "reweighting.examples_per_label: 1 leaves no training text to hold out for choosing "
            "among several learning_rates; give two or more, or a single rate."
        )
    for name, task in config["tasks"].items():
        wanted = task.get("many_demonstrations")
        if wanted is not None and not fixed < wanted <= most:
            raise InputError(
                f"tasks.{name}.many_demonstrations: {wanted} should be more than "
                f"demonstrations_per_label ({fixed}) and at most that plus "
                f"reweighting.examples_per_label ({most})."
            )


ANALYSIS = Analysis(
    subject="the gain from re-weighting in {}",
    category=ANCHORS,
    measured=Measured(
        {
            "beta": "beta",
            "beta_anchor": "beta",
            "descent": "descent",
            "learning_rates": "learning_rates",
            "predictions": "reweighting",
            "prompts": "prompts",
        }
    ),
    summary=Summary(
        {
            "predictions": "reweighting/predictions",
            "auxiliary": "reweighting/prompts",
            "prompts": "prompts",
        },
        ("statistics", "baselines"),
    ),
    figure=Presented("Fitted weights by layer and head", {"beta": "reweighting/beta"}),
    table=Presented("Re-weighting and its baselines (Table 1 of [A])"),
    check=check,
)
