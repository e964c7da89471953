"""Accuracy and time per query with compressed demonstrations ([A] Table 3)."""

from collections.abc import Mapping
from typing import Any

from anchorflow.config.analysis import ANCHORS, Analysis, Measured, Presented
from anchorflow.config.errors import InputError

_READS = {"timing": "timing", "compression": "summaries/compression"}


def check(config: Mapping[str, Any]) -> None:
    """Refuse batches of unequal sizes."""
    queries, together = config["timing"]["queries"], config["timing"]["batch_size"]
    if queries % together:
        raise InputError(
            f"timing.batch_size: {together} does not divide timing.queries ({queries}); choose "
            "numbers that fit, so that all batches are of one size."
        )


ANALYSIS = Analysis(
    subject="accuracy and time per query of {}",
    category=ANCHORS,
    measured=Measured(first_seed=True, repeatable=False),
    figure=Presented("Accuracy against time per query (Table 3 of [A])", _READS, ("labels",)),
    table=Presented("Accuracy and time per query (Table 3 of [A])", _READS),
    check=check,
)
