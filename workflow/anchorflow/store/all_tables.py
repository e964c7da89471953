"""All tables of the project, by name."""

import importlib

from anchorflow.config.registry import schema_modules
from anchorflow.config.stages import files_of_tables
from anchorflow.config.table import Table


def _schemas() -> dict[str, Table]:
    modules = [importlib.import_module(name) for name in schema_modules()]
    found = (value for module in modules for value in vars(module).values())
    named = {table.name: table for table in found if isinstance(table, Table)}
    return {name: named[name] for name in files_of_tables()}


TABLES: dict[str, Table] = _schemas()
