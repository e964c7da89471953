"""Folders of the package in which every file, or folder, is one entry: a method, an analysis.

An entry is added by adding its file, or by installing another package that names its module as an
entry point of a group in ``GROUPS``. The rules read what a file declares without importing it.

A place is a path within this package, such as ``analyses/flow/plot.py``, or within an installed one
after ``installed/``, such as ``installed/sink/plot.py``.
"""

import ast
import importlib
import sys
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from anchorflow.config.errors import InputError
from anchorflow.config.places import PACKAGE

METHODS = "analyses/compression/methods"
GROUPS = {"analyses": "anchorflow.analyses", METHODS: "anchorflow.compression"}
INSTALLED = "installed"
SECTIONS = "claims/sections"


@cache
def installed(folder: str) -> dict[str, str]:
    """Places of what other packages add to a folder of ``GROUPS``, by name, without ending."""
    found: dict[str, str] = {}
    for point in entry_points(group=GROUPS[folder]) if folder in GROUPS else ():
        files = (PACKAGE / folder / point.name, PACKAGE / folder / f"{point.name}.py")
        if point.name in found or any(file.exists() for file in files):
            raise InputError(
                f"{point.value}: there is another {point.name} among {GROUPS[folder]}; uninstall "
                "one of the two packages."
            )
        if not (point.name.isidentifier() and point.name.islower()):
            raise InputError(
                f"{point.value}: {point.name!r} can't be the name of an entry of {GROUPS[folder]}; "
                "choose one of small letters, digits and underscores."
            )
        found[point.name] = "/".join((INSTALLED, *point.value.split(".")))
    return found


@cache
def others() -> dict[str, Path]:
    """The folders of installed packages that have entries, by their names."""
    names = {place.split("/")[1] for folder in GROUPS for place in installed(folder).values()}
    found = {}
    for name in sorted(names):
        spec = find_spec(name)
        if spec is None or not spec.submodule_search_locations:
            raise InputError(
                f"{name}: its entry points name an analysis or a method of compression, but there "
                "is no such package; install it again, or uninstall it."
            )
        found[name] = Path(spec.submodule_search_locations[0])
    return found


def file_of(place: str) -> Path:
    """The file, or the folder, at a place."""
    first, _, inner = place.partition("/")
    if first != INSTALLED:
        return PACKAGE / place
    name, _, rest = inner.partition("/")
    return others()[name] / rest


@cache
def place_of(path: Path) -> str | None:
    """The place of a file; None if it is of no package that has entries."""
    if path.is_relative_to(PACKAGE):
        return path.relative_to(PACKAGE).as_posix()
    for name, folder in others().items():
        if path.is_relative_to(folder):
            return f"{INSTALLED}/{name}/{path.relative_to(folder).as_posix()}"
    return None


def module_at(place: str) -> str:
    """The dotted name of the module at a place, with or without its ending."""
    parts = place.removesuffix(".py").removesuffix("/__init__").split("/")
    return ".".join(parts[1:] if parts[0] == INSTALLED else (PACKAGE.name, *parts))


def file_of_module(module: str) -> Path | None:
    """The file of a module by its dotted name; None if it is of no package that has entries."""
    package, *parts = module.split(".")
    root = PACKAGE if package == PACKAGE.name else others().get(package)
    if root is None:
        return None
    place = root.joinpath(*parts)
    files = (place.with_suffix(".py"), place / "__init__.py")
    return next((file for file in files if file.is_file()), None)


def entries(folder: str) -> list[str]:
    """Names of the files in a folder, such as ``claims/sections``, and of what is added to it.

    Files whose name begins with an underscore, such as ``__init__``, are not entries.
    """
    files = file_of(folder).glob("*.py")
    return sorted({*(f.stem for f in files if not f.stem.startswith("_")), *installed(folder)})


def packages(folder: str) -> list[str]:
    """Names of the folders in a folder, such as ``analyses``, and of what is added to it."""
    inits = file_of(folder).glob("*/__init__.py")
    return sorted({*(init.parent.name for init in inits), *installed(folder)})


def place(folder: str, name: str) -> str:
    """The place of an entry, without ending."""
    return installed(folder).get(name, f"{folder}/{name}")


def schema_modules() -> list[str]:
    """The dotted names of all modules that describe tables; see :func:`is_schema`."""
    folders = [PACKAGE, *(file_of(place) for place in installed("analyses").values())]
    found = sorted(path for folder in folders for path in folder.rglob("*.py") if is_schema(path))
    return [module_at(known) for known in map(place_of, found) if known]


def claim_places() -> list[str]:
    """Places of the modules with claims: in analyses' folders, then by sections of the papers."""
    folders = (place("analyses", name) for name in packages("analyses"))
    known = [f"{at}/claims" for at in folders if file_of(f"{at}/claims.py").is_file()]
    return sorted(known) + [f"{SECTIONS}/{section}" for section in entries(SECTIONS)]


@cache
def is_schema(path: Path) -> bool:
    """Whether a file declares tables: of its names, those that are imported count."""
    if path.name == "__init__.py":
        return path.parent.parent == PACKAGE / "analyses" or _is_of_installed(path)
    shared = path.parent == PACKAGE / "schemas" and path.name != "frames.py"
    return shared or path == PACKAGE / "claims" / "schema.py"


def _is_of_installed(path: Path) -> bool:
    return any(path.parent == file_of(place) for place in installed("analyses").values())


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
        file = file_of(f"{place(folder, name)}.py")
        raise InputError(f"{file}: there is no constant {constant}; declare it as a literal.")
    return default


def _tree(folder: str, name: str) -> ast.Module:
    file = file_of(f"{place(folder, name)}.py")
    try:
        return ast.parse(file.read_text(encoding="utf-8"))
    except (OSError, SyntaxError) as error:
        if name not in installed(folder):
            raise
        raise InputError(
            f"{file}: this entry of another package can't be read ({error}); mend the package, or "
            "uninstall it."
        ) from None


def loaded_files() -> frozenset[Path]:
    """Files of this package, and of those with entries, that this process has imported."""
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    return frozenset(path for path in map(Path, filter(None, files)) if place_of(path))


def load(folder: str, name: str) -> ModuleType:
    """Import one entry. The rule of a job that does so lists the entry among its code."""
    return importlib.import_module(module_at(place(folder, name)))
