"""Folders of the package in which every file, or folder, is one entry: a method, an analysis.

An entry is added by adding its file. The rules read what a file declares without importing it.
"""

import ast
import importlib
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from anchorflow.config.errors import InputError
from anchorflow.config.places import PACKAGE


def entries(folder: str) -> list[str]:
    """Names of the files in a folder of the package, such as ``claims/sections``, sorted.

    Files whose name begins with an underscore, such as ``__init__``, are not entries.
    """
    files = (PACKAGE / folder).glob("*.py")
    return sorted(file.stem for file in files if not file.stem.startswith("_"))


def packages(folder: str) -> list[str]:
    """Names of the folders in a folder of the package, such as ``analyses``, sorted."""
    inits = (PACKAGE / folder).glob("*/__init__.py")
    return sorted(init.parent.name for init in inits)


def schema_modules() -> list[str]:
    """The dotted names of all modules that describe tables; see :func:`is_schema`."""
    found = sorted(path for path in PACKAGE.rglob("*.py") if is_schema(path))
    return [
        ".".join((PACKAGE.name, *path.relative_to(PACKAGE).with_suffix("").parts)) for path in found
    ]


@cache
def is_schema(path: Path) -> bool:
    """Whether a file describes tables and does nothing else."""
    shared = path.parent == PACKAGE / "schemas" and path.name != "frames.py"
    return shared or path.name == "schema.py"


@cache
def summary_of(folder: str, name: str) -> str:
    """The first paragraph of an entry's docstring, on one line."""
    docstring = ast.get_docstring(_tree(folder, name)) or ""
    return " ".join(docstring.partition("\n\n")[0].split())


@cache
def declared(folder: str, name: str, constant: str, default: Any = None) -> Any:
    """The value of a constant that an entry declares as a literal, or ``default``."""
    for node in _tree(folder, name).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == constant for target in targets):
                return ast.literal_eval(node.value)
    if default is None:
        file = PACKAGE / folder / f"{name}.py"
        raise InputError(f"{file}: there is no constant {constant}; declare it as a literal.")
    return default


def _tree(folder: str, name: str) -> ast.Module:
    return ast.parse((PACKAGE / folder / f"{name}.py").read_text(encoding="utf-8"))


def module_name(folder: str, name: str) -> str:
    """The dotted name of an entry's module."""
    return ".".join((PACKAGE.name, *filter(None, folder.split("/")), name))


def load(folder: str, name: str) -> ModuleType:
    """Import one entry. The rule of a job that does so lists the entry among its code."""
    return importlib.import_module(module_name(folder, name))
