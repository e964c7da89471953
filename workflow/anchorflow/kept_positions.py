"""All methods of compression by name, for use without the workflow."""

from collections.abc import Mapping

from anchorflow.analyses.compression.methods import (
    FOLDER,
    Choose,
    Demonstrations,
    Kept,
    everywhere,
    method,
)
from anchorflow.config.registry import declared, entries

__all__ = ["AT_ANY_BUDGET", "METHODS", "Choose", "Demonstrations", "Kept", "everywhere"]

METHODS: Mapping[str, Choose] = {name: method(name) for name in entries(FOLDER)}
# Methods that accept any budget; the others select tokens by their role.
AT_ANY_BUDGET = tuple(name for name in METHODS if declared(FOLDER, name, "ANY_BUDGET"))
