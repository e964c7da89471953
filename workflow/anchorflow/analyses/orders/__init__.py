"""The same demonstrations in several orders, and new draws of them ([K])."""

from collections.abc import Mapping
from typing import Any

from anchorflow.config.analysis import KERNEL, Analysis, Measured, Presented, Summary
from anchorflow.config.errors import InputError


def check(config: Mapping[str, Any]) -> None:
    """Refuse a single order."""
    if config["orders"]["count"] == 1:
        raise InputError(
            "orders.count: a single order can't be compared with another; give 2 or more, or 0 "
            "to leave orders out."
        )


ANALYSIS = Analysis(
    subject="the effect of the order of demonstrations in {}",
    category=KERNEL,
    measured=Measured(
        {"prompts": "prompts", "predictions": "orders"},
        sharded=True,
        follows="kernel",
        message="Predicting with other orders of the demonstrations of {task} in {model}",
        reads={
            "texts": "texts",
            "samples": "samples",
            "kernel": "kernel/samples",
            "tokenizer": "tokenizers",
            "model": "models",
        },
        builds_prompts=True,
    ),
    summary=Summary(
        {"predictions": "orders/predictions", "prompts": "orders/prompts"},
        ("statistics", "chosen_on"),
    ),
    figure=Presented("Orders of demonstrations"),
    table=Presented("Orders of demonstrations"),
    asked_for="orders.count",
    check=check,
)
