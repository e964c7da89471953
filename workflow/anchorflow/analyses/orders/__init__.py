"""The same demonstrations in several orders, and new draws of them ([K])."""

from collections.abc import Mapping
from typing import Any

from anchorflow.config.analysis import KERNEL_REGRESSION, Analysis, Measured, Presented, Summary
from anchorflow.config.errors import InputError
from anchorflow.config.table import DIFFERENCE, SHARE, Column, Measure, table
from anchorflow.schemas import fields as f
from anchorflow.schemas.summaries import summary_of

ARRANGEMENT = Column(
    "arrangement",
    "string",
    "order: the same demonstrations in random orders; draw: demonstrations drawn anew, the same "
    "number of each label",
)

ORDERS = table(
    "orders",
    "one per (arrangement, number, example), with the same number of demonstrations as in kernel "
    "regression",
    *f.CELL,
    ARRANGEMENT,
    Column(
        "number", "int32", "number of the order, 0 for that of kernel regression, or of the draw"
    ),
    f.EXAMPLE,
    f.LABEL,
    *f.PREDICTED,
    Column("heads", f.INDICES, "as in the table counts"),
    keys="model task seed arrangement number example",
)

_OF_DRAWS = "{} minus that of draws, paired"
ORDERS_SUMMARY = summary_of(
    "orders",
    (ARRANGEMENT,),
    (
        Measure("accuracy", "mean accuracy of all orders, or of all draws", SHARE),
        Measure("spread", "standard deviation of their accuracies", SHARE),
        Measure("range", "largest minus smallest accuracy", SHARE),
        Measure(
            "changed",
            "share of predictions that differ between two of them, mean over pairs",
            SHARE,
        ),
        Measure(
            "head_changed",
            "changed, for kernel regression of the best head; the same head for orders and draws, "
            "chosen on other texts for its agreement in both (see kernel.chosen_on)",
            SHARE,
        ),
        Measure("head_agreement", "share of its predictions that are the model's", SHARE),
        *(
            Measure(f"{name}_difference", _OF_DRAWS.format(name), DIFFERENCE)
            for name in ("accuracy", "spread", "changed")
        ),
    ),
    (f.SKIPPED,),
)


def check(config: Mapping[str, Any]) -> None:
    """Refuse a single order."""
    if config["orders"]["count"] == 1:
        raise InputError(
            "orders.count: a single order can't be compared with another; give 2 or more, or 0 "
            "to leave orders out."
        )


ANALYSIS = Analysis(
    subject="the effect of the order of demonstrations in {}",
    category=KERNEL_REGRESSION,
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
