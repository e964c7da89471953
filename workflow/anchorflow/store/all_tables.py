"""All tables of the project, by name."""

import importlib

import pyarrow as pa

from anchorflow.config.registry import schema_modules
from anchorflow.config.stages import files_of_tables


def _schemas() -> dict[str, pa.Schema]:
    modules = [importlib.import_module(name) for name in schema_modules()]
    found = (value for module in modules for value in vars(module).values())
    named = {s.metadata[b"table"].decode(): s for s in found if isinstance(s, pa.Schema)}
    return {name: named[name] for name in files_of_tables()}


TABLES: dict[str, pa.Schema] = _schemas()
