"""The fields of a task's texts, such as premise and hypothesis, and how a text joins them."""

from collections.abc import Mapping
from typing import Any

TEXT = "text"  # the one field of a task that names none
FIELD_SEPARATOR = "\x1f"  # ASCII's unit separator


def fields_of(columns: Mapping[str, Any]) -> tuple[str, ...]:
    """The fields among the ``columns`` of a task, in their order: all but the label."""
    return tuple(name for name in columns if name != "label")
