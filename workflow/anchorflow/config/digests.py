"""Which code a rule's numbers depend on, as digests that Snakemake compares.

A job runs again when code that makes its numbers has changed. That code is the rule's script and
the modules of this package that it imports, directly or through others. Of each, everything counts
but comments, formatting and docstrings; of declarations, the names, types and keys of the tables
that are used, and the bounds of their measures.

Modules that only move bytes do not count (:data:`NOT_COUNTING`). If one of them changes numbers
after all, increase :data:`NUMBERS`, which reruns everything.
"""

import ast
import builtins
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

from anchorflow.config.analysis import Analysis
from anchorflow.config.places import PACKAGE, WORKFLOW
from anchorflow.config.registry import (
    INSTALLED,
    file_of,
    file_of_module,
    is_schema,
    module_at,
    place_of,
)

NUMBERS = 1

# Packages and modules that read, write, check, log and plan, but compute no number.
NOT_COUNTING = (
    "config",
    "store",
    "model/cost.py",
    "model/size.py",
    "model/devices.py",
    "__init__.py",  # the package's docstring, version, and where its public names are
)
DECLARATION = re.compile(r"(analyses|claims|installed/.*)/__init__\.py")
# Exceptions: names of cells seed random draws, separators are part of texts, shards select them,
# characters that are not seen are stripped, and intervals end at the bounds of measures.
COUNTING = (
    "config/cell_names.py",
    "config/text_fields.py",
    "config/shards.py",
    "config/look_alikes.py",
    "config/table.py",
)

_PAGE_PARTS = (".html", ".css", ".js")  # same stem and folder as a module

Name = str | None  # a name that is imported from a module; None for the whole module


def code_of(script: Path, modules: Iterable[str] = ()) -> dict[str, Any]:
    """A rule's ``params`` for its code: for each package, its files and their digests.

    ``modules`` are files of the package, such as ``analyses/flow/plot.py``, that the script loads
    by name. If one changes, Snakemake prints those of its package before and now.
    """
    packages: dict[str, list[str]] = {}
    for path, names in sorted(_closure(script, modules).items()):
        if not _inside(path) or counts(path):
            label = _label(path)
            packages.setdefault(f"code_{_package(label)}", []).append(
                f"{label} {digest(path, frozenset(names))}"
            )
    return {"numbers": f"numbers {NUMBERS}", **packages}


def _package(label: str) -> str:
    """The innermost package whose files are listed together: that of an analysis is its name."""
    *folders, _ = label.split("/")
    inner = folders[1:] if folders[:1] in (["analyses"], [INSTALLED]) else folders
    return inner[0] if inner else PACKAGE.name


def tracked(params: Mapping[str, Any]) -> dict[Path, str]:
    """The files behind a job's params that :func:`code_of` made, with their digests."""
    packages = [value for name, value in params.items() if name.startswith("code_")]
    labels = (file.split() for files in packages for file in files)
    return {
        WORKFLOW / label if label.startswith("scripts/") else file_of(label): known
        for label, known in labels
    }


def counts(path: Path) -> bool:
    """Whether a file of the package affects numbers."""
    place = place_of(path) or path.as_posix()
    if DECLARATION.fullmatch(place) and not is_schema(path):
        return False
    return place in COUNTING or not any(
        place == part or place.startswith(f"{part}/") for part in NOT_COUNTING
    )


@cache
def digest(path: Path, names: frozenset[Name] = frozenset([None])) -> str:
    """What a module computes, or part of a page holds, as twelve hexadecimal digits.

    Of a schema, these ``names`` count; all with None.
    """
    if is_schema(path):
        text = repr([pair for pair in _columns(path) if names & {None, "*", pair[0]}])
    elif path.suffix == ".py":
        text = _meaning(_tree(path))
    else:
        text = path.read_text(encoding="utf-8")
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def digest_now(path: Path) -> str:
    """The digest of a whole file as it is now, even if it changed after an earlier digest."""
    for cached in (digest, _tree, _executed):
        cached.cache_clear()
    return digest(path)


def _inside(path: Path) -> bool:
    return place_of(path) is not None


def _label(path: Path) -> str:
    return place_of(path) or f"scripts/{path.name}"


def _closure(script: Path, modules: Iterable[str]) -> dict[Path, set[Name]]:
    """The files that a script runs, each with the names that are imported from it."""
    found: dict[Path, set[Name]] = {}
    waiting: list[tuple[Path, Name]] = [(script, None)]
    waiting += [(file_of(module), None) for module in modules]
    while waiting:
        path, name = waiting.pop()
        name = name if is_schema(path) else None
        if name not in found.setdefault(path, set()):
            found[path].add(name)
            waiting += _runs(path)
    return found


@cache
def _runs(path: Path) -> list[tuple[Path, Name]]:
    """Files that a file imports, the ``__init__`` of its folders, and its parts of a page."""
    inits = [folder / "__init__.py" for folder in path.parents if _inside(folder)]
    inits = [init for init in inits if not is_schema(init)]  # what is imported of it is followed
    companions = [*inits, *(path.with_suffix(end) for end in _PAGE_PARTS)]
    found: list[tuple[Path, Name]] = [(file, None) for file in companions if file.is_file()]
    if path.suffix == ".py" and not is_schema(path):  # a schema's digest covers what it imports
        for node in _statements(_tree(path)):
            if isinstance(node, ast.Import):
                found += [file for alias in node.names for file in _files(alias.name)]
            elif isinstance(node, ast.ImportFrom):
                module = _absolute(path, node.module or "", node.level)
                for alias in node.names:
                    found += _files(f"{module}.{alias.name}") or _files(module, alias.name)
    return found


def _absolute(path: Path, module: str, level: int) -> str:
    """The dotted name of a module that a file imports, also relative to its own package."""
    place = place_of(path)
    if not level or place is None:
        return module
    package = module_at(place).split(".")
    dropped = level - (path.name == "__init__.py")
    return ".".join([*package[: len(package) - dropped], *filter(None, [module])])


def _statements(node: Any) -> Iterator[ast.AST]:
    """All statements below a node. Imports are statements, and most of a tree is expressions."""
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(node, block, ()):
            yield inner
            yield from _statements(inner)


@cache
def _files(module: str, name: Name = None) -> list[tuple[Path, Name]]:
    """The file of a module, with a name that is imported from it; see :func:`file_of_module`."""
    file = file_of_module(module)
    return [] if file is None else [(file, name)]


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes(), str(path))


def _meaning(node: Any) -> str:
    """A syntax tree without docstrings, as text that is the same in every version of Python.

    Empty fields are left out, since versions add fields.
    """
    if isinstance(node, list):
        return f"[{','.join(_meaning(part) for part in node if not _is_docstring(part))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = (
        f"{name}={_meaning(value)}"
        for name, value in ast.iter_fields(node)
        if name not in ("type_comment", "kind") and value is not None and value != []
    )
    return f"{type(node).__name__}({','.join(fields)})"


def _is_docstring(node: Any) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _columns(path: Path) -> list[tuple[str, Any]]:
    """What columns, tables and other constants of a schema are, by their names."""
    values = sorted(vars(_executed(path)).items())
    other = (type, ModuleType, SimpleNamespace, FunctionType, Analysis)
    known = [(k, v) for k, v in values if not k.startswith("_") and not isinstance(v, other)]
    return [(name, without_words(value)) for name, value in known]


def without_words(value: Any) -> Any:
    """What is declared, but for entries that only say something to readers."""
    if is_dataclass(value):
        counted = (entry for entry in fields(value) if not entry.metadata.get("words"))
        return [without_words(getattr(value, entry.name)) for entry in counted]
    if isinstance(value, tuple | list):
        return [without_words(part) for part in value]
    return value


@cache
def _executed(path: Path) -> SimpleNamespace:
    """What a schema defines, and what it has imported, as the files are now."""

    def imported(name: str, *scopes: Any, **more: Any) -> Any:
        level = scopes[3] if len(scopes) > 3 else more.pop("level", 0)
        return _import(_absolute(path, name, level), *scopes[:3], **more)

    scope: dict[str, Any] = {"__builtins__": {**vars(builtins), "__import__": imported}}
    scope["__name__"] = module_at(place_of(path) or path.stem)
    exec(compile(_tree(path), str(path), "exec"), scope)
    del scope["__builtins__"], scope["__name__"]
    return SimpleNamespace(**scope)


def _import(name: str, *scopes: Any, **more: Any) -> Any:
    """As ``__import__``, but for schemas, which are executed again."""
    parts = scopes[2] or ()
    inner = {part: file for part in parts for file, _ in _files(f"{name}.{part}")}
    if inner and all(is_schema(file) for file in inner.values()):
        return SimpleNamespace(**{part: _executed(file) for part, file in inner.items()})
    of_module = [file for file, _ in _files(name) if is_schema(file)]
    return _executed(of_module[0]) if of_module else builtins.__import__(name, *scopes, **more)
