"""All tables of the project, by name."""

import importlib

from anchorflow.config.errors import InputError
from anchorflow.config.registry import schema_modules
from anchorflow.config.stages import files_of_tables
from anchorflow.config.table import Table


def _schemas() -> dict[str, Table]:
    modules = [importlib.import_module(name) for name in schema_modules()]
    found = (value for module in modules for value in vars(module).values())
    named: dict[str, Table] = {}
    for table in found:
        if isinstance(table, Table) and named.setdefault(table.name, table) != table:
            raise InputError(
                f"{table.name}: two analyses declare a table of this name; rename one."
            )
    if missing := [name for name in files_of_tables() if name not in named]:
        raise InputError(f"{missing[0]}: an analysis writes this table, but declares no columns.")
    return {name: named[name] for name in files_of_tables()}


TABLES: dict[str, Table] = _schemas()
