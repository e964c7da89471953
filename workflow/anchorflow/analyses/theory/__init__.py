"""Kernel regression and exact Bayesian inference in random worlds ([K] §4.1, Theorem 1)."""

from collections.abc import Mapping
from typing import Any

from anchorflow.config.analysis import KERNEL, WORLDS, Analysis, Measured, Presented, Summary
from anchorflow.config.errors import InputError


def check(config: Mapping[str, Any]) -> None:
    """Refuse more tasks than the world has states."""
    states, tasks = config["theory"]["states"], config["theory"]["tasks"]
    if tasks > states:
        raise InputError(
            f"theory.tasks: {tasks} tasks can't start in distinct states, since theory.states is "
            f"{states}; choose at most {states}."
        )


ANALYSIS = Analysis(
    subject="kernel regression and Bayesian inference in random worlds",
    category=KERNEL,
    measured=Measured(path=WORLDS),
    summary=Summary({"theory": "theory"}),
    figure=Presented("Kernel regression and Bayesian inference (Theorem 1 of [K])"),
    table=Presented("Kernel regression and Bayesian inference (Table 3 of [K])"),
    check=check,
)
