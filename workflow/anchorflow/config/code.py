"""Which code a rule's numbers depend on, as digests that Snakemake compares.

A job runs again when code that makes its numbers has changed. That code is the rule's script and
the modules of this package that it imports, directly or through others. Each one is identified by
a digest of its syntax tree without the parts that can't affect numbers: comments, formatting,
docstrings, the text of errors, logs and progress bars, and descriptions of columns.

Modules that only move bytes do not count (:data:`NOT_COUNTING`). If one of them changes numbers
after all, increase :data:`NUMBERS`, which reruns everything.
"""

import ast
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

from anchorflow.config.errors import InputError
from anchorflow.config.known_code import Known

NUMBERS = 1

# Rooms and modules that read, write, check, log and plan, but make no number; and what of them
# does: names of cells seed random draws, and shards choose test texts.
NOT_COUNTING = (
    "config",
    "store",
    "document",
    "model/memory.py",
    "model/cost.py",
    "model/size.py",
    "model/devices.py",
    "__init__.py",  # the package's docstring and version
)
COUNTING = ("config/cells.py", "config/fields.py", "config/shards.py")

_DECLARING = "schemas"  # a room whose imported names are followed one by one
_PACKAGE = Path(__file__).parents[1]
_PAGE_PARTS = (".html", ".css", ".js")  # same stem and folder as a module
_LOGS = re.compile(r"(log|logger|logging)\.(debug|info|warning|error|exception)|warnings\.warn")
_DYNAMIC = ("import_module", "__import__", "exec", "eval")
_LOADERS = ("importlib", "importlib.util", "importlib.machinery", "runpy", "builtins", "pkgutil")
_UNCOUNTED_NAMES = ("__all__", "__version__")

REMEMBERED_IN = Path(".snakemake")  # of the folder that a run works in

Name = str | None  # a name that is imported from a module; None for the whole module

_known: Known | None = None  # from earlier runs


def remember(folder: Path, keep: bool = False) -> None:
    """Take what earlier runs have found out about files that are as they were.

    Parameters
    ----------
    folder : Path
        Where Snakemake keeps what it remembers of a run.
    keep : bool
        Keep there what this process finds out.
    """
    global _known
    _known = Known(folder, [Path(__file__)], _modules)
    if keep:
        _known.keep_at_exit()


def _modules() -> Iterator[Path]:
    return (path.relative_to(_PACKAGE) for path in _PACKAGE.rglob("*.py"))


def _remembered(what: str, path: Path, find: Callable[[], Any]) -> Any:
    """What ``find`` returns of a file, unless it is known."""
    return _known.get(_content(path), f"{what} {_label(path)}", find) if _known else find()


@cache
def _content(path: Path) -> bytes:
    """A file as this process has first read it, of which all that it finds out is true."""
    return path.read_bytes()


def code_of(script: Path, modules: Iterable[str] = ()) -> dict[str, Callable[[Any], str]]:
    """A rule's ``params`` for its code: functions that return a file and its digest, by identifier.

    Every file has its own param, so that Snakemake names the files that changed. Digests are
    computed when a job asks for them.

    Parameters
    ----------
    script : Path
        The rule's script.
    modules : iterable of str
        Files of the package, such as ``summarize/flow.py``, that the script loads by name.

    Raises
    ------
    InputError
        If an import can't be followed.
    """
    named = {_PACKAGE / module for module in modules}
    params: dict[str, Callable[[Any], str]] = {"code_numbers": lambda _: f"numbers {NUMBERS}"}
    for path, names in _closure(script, frozenset(named)).items():
        label = _label(path)
        key = "code_" + re.sub(r"\W", "_", label.removesuffix(".py"))
        if key in params:
            raise InputError(f"{label}: another file of this rule has the same key; rename one.")
        params[key] = partial(_labelled, label, path, names)
    return params


@cache
def _label(path: Path) -> str:
    return path.relative_to(_PACKAGE).as_posix() if _inside(path) else f"scripts/{path.name}"


def _labelled(label: str, path: Path, names: frozenset[Name], wildcards: Any) -> str:
    return f"{label} {digest(path, names)}"


def tracked(params: Any) -> dict[Path, str]:
    """The files behind a job's params that :func:`code_of` made, with their digests."""
    scripts = _PACKAGE.parent
    found = {}
    for name, value in params.items():
        if name.startswith("code_") and name != "code_numbers":
            label, known = value.split()
            found[(scripts if label.startswith("scripts/") else _PACKAGE) / label] = known
    return found


def counts(path: Path) -> bool:
    """Whether a file of the package affects numbers."""
    place = path.relative_to(_PACKAGE).as_posix()
    return place in COUNTING or not any(
        place == part or place.startswith(f"{part}/") for part in NOT_COUNTING
    )


def _inside(path: Path) -> bool:
    return path.is_relative_to(_PACKAGE)


@cache
def _counted(path: Path) -> bool:
    """Whether a file's code counts; scripts do."""
    return not _inside(path) or counts(path)


@cache
def _closure(script: Path, modules: frozenset[Path]) -> dict[Path, frozenset[Name]]:
    """The files whose code counts, each with the names that are imported from it."""
    found: dict[Path, set[Name]] = {script: {None}}
    waiting = [script]
    for module in sorted(modules):
        if not module.is_file():
            raise InputError(f"{module}: there is no such module; correct the rule that names it.")
        for file in (module, *_packages_of(module)):
            found[file] = {None}
            waiting.append(file)
    while waiting:
        path = waiting.pop()
        for module, name in _imports(path):
            wanted = name if module.parent.name == _DECLARING else None
            if wanted not in found.get(module, ()):
                found.setdefault(module, set()).add(wanted)
                waiting.append(module)
    found.update({part: {None} for path in list(found) for part in _page_parts(path)})
    counting = filter(_counted, sorted(found))
    return {path: frozenset(found[path]) for path in counting}


@cache
def _page_parts(path: Path) -> list[Path]:
    """The parts of a page that stand next to a module."""
    return [part for end in _PAGE_PARTS if (part := path.with_suffix(end)).is_file()]


def _packages_of(module: Path) -> list[Path]:
    """The ``__init__`` files that are run before a module is."""
    inits = [folder / "__init__.py" for folder in module.parents if folder.is_relative_to(_PACKAGE)]
    return [init for init in inits if init.is_file()]


@cache
def _imports(path: Path) -> tuple[tuple[Path, Name], ...]:
    """Files of the package that a file imports, with the name that it takes from each.

    Raises
    ------
    InputError
        If what is imported is not clear from the source, or does not exist.
    """

    def find() -> list[tuple[str, Name]]:
        return [(file.relative_to(_PACKAGE).as_posix(), name) for file, name in _followed(path)]

    return tuple((_PACKAGE / file, name) for file, name in _remembered("imports", path, find))


def _followed(path: Path) -> tuple[tuple[Path, Name], ...]:
    found: list[tuple[Path, Name]] = []
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if _own(alias.name):
                    found.append((_module(path, node, alias.name.split(".")), None))
        elif isinstance(node, ast.ImportFrom):
            source = _source(path, node)
            if source is not None:
                for alias in node.names:
                    found.append(_imported(path, node, source, alias.name))
        if isinstance(node, ast.stmt) and _counted(path) and _loads(node):
            raise InputError(
                f"{path}:{node.lineno}: such an import can hide which code is run; import modules "
                "themselves, or load them by anchorflow.config.registry and name them in the rule."
            )
        if isinstance(node, ast.Call) and _is_dynamic(node.func) and _counted(path):
            raise InputError(
                f"{path}:{node.lineno}: {_called(node.func)}() hides which code is run; import "
                "the module, or load it by anchorflow.config.registry and name it in the rule."
            )
    return tuple(
        dict.fromkeys(
            pair
            for module, name in found
            for pair in [(module, name), *((init, None) for init in _packages_of(module))]
        )
    )


def _loads(node: ast.stmt) -> bool:
    """Whether a statement imports what can run code that the text does not name."""
    if isinstance(node, ast.Import):
        return any(alias.name in _LOADERS for alias in node.names)
    if isinstance(node, ast.ImportFrom) and node.level == 0:
        names = {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        return bool(names & {*_LOADERS, "importlib.import_module"} - {"importlib"})
    return False


def _is_dynamic(function: ast.expr) -> bool:
    """Whether a call runs code that the source does not name; a model's ``eval()`` does not."""
    name = _called(function)
    return name in _DYNAMIC and (isinstance(function, ast.Name) or name == "import_module")


def _own(name: str) -> bool:
    return name.split(".")[0] == _PACKAGE.name


def _source(path: Path, node: ast.ImportFrom) -> list[str] | None:
    """The parts of the name of the module imported from; None if it is another package's."""
    if node.level == 0:
        return node.module.split(".") if node.module and _own(node.module) else None
    if not _inside(path):
        raise InputError(f"{path}:{node.lineno}: a relative import outside of the package.")
    folder = path.parents[node.level - 1]
    place = [_PACKAGE.name, *folder.relative_to(_PACKAGE).parts]
    return [*place, *(node.module.split(".") if node.module else ())]


def _imported(path: Path, node: ast.ImportFrom, source: list[str], name: str) -> tuple[Path, Name]:
    """The file behind ``from source import name``: a module, or one that defines the name."""
    if name == "*":
        raise InputError(f"{path}:{node.lineno}: import * hides what is imported; name it.")
    for parts, taken in (([*source, name], None), (source, name)):
        file = _file(parts)
        if file is not None:
            return file, taken
    raise _missing(path, node, [*source, name])


def _module(path: Path, node: ast.Import, parts: list[str]) -> Path:
    file = _file(parts)
    if file is None:
        raise _missing(path, node, parts)
    return file


def _missing(path: Path, node: ast.stmt, parts: list[str]) -> InputError:
    return InputError(f"{path}:{node.lineno}: {'.'.join(parts)} is not there; correct the import.")


def _file(parts: list[str]) -> Path | None:
    place = _PACKAGE.joinpath(*parts[1:])
    candidates = (place.with_suffix(".py"), place / "__init__.py") if parts[1:] else ()
    return next((file for file in candidates if file.is_file()), _root(parts))


def _root(parts: list[str]) -> Path | None:
    return _PACKAGE / "__init__.py" if len(parts) == 1 else None


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(_content(path), str(path))


@cache
def digest(path: Path, names: frozenset[Name] = frozenset([None])) -> str:
    """What a file computes, as twelve hexadecimal digits.

    Parameters
    ----------
    path : Path
        A module, or part of a page, whose bytes count.
    names : set of str
        Count the definitions of these names, and what they use in the file; all with None.
    """
    if path.suffix in _PAGE_PARTS:
        return hashlib.sha256(_content(path)).hexdigest()[:12]
    wanted = "all" if None in names else ",".join(sorted(filter(None, names)))
    found: str = _remembered(f"digest {wanted}", path, lambda: _digest(path, names))
    return found


def _digest(path: Path, names: frozenset[Name]) -> str:
    body = _tree(path).body
    if None not in names:
        body = list(_definitions(body, {name for name in names if name is not None}))
    describing = path.parent.name == _DECLARING
    counted = (statement for statement in body if not _names_the_package(statement))
    text = "\n".join(filter(None, (_meaning(statement, describing) for statement in counted)))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def forget() -> None:
    """Let the next digests be those of the files as they are by then."""
    for remembered in (_content, _tree, digest):
        remembered.cache_clear()


def _definitions(body: list[ast.stmt], names: set[str]) -> Iterator[ast.stmt]:
    """The statements that define the names, and those that they use, in source order."""
    needed, waiting = set(names), list(names)
    defining = [(statement, _defined(statement)) for statement in body]
    while waiting:
        name = waiting.pop()
        for statement, defined in defining:
            if name in defined:
                used = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
                waiting += used - needed
                needed |= used
    return (statement for statement, defined in defining if defined & needed)


def _defined(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {(alias.asname or alias.name).split(".")[0] for alias in statement.names}
    return {
        node.id
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def _meaning(node: Any, describing: bool, sentence: bool = False) -> str:
    """A syntax tree as text, the same for every version of Python that can parse it.

    Empty fields are left out, since versions add fields.

    Parameters
    ----------
    describing : bool
        Leave out the descriptions in a schema's ``field(…)`` and ``table(…)``.
    sentence : bool
        Leave out texts, here in what is logged.
    """
    if isinstance(node, list):
        parts = (_meaning(part, describing, sentence) for part in node)
        return f"[{','.join(filter(None, parts))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    if isinstance(node, ast.Expr) and _is_text(node.value):
        return ""  # a docstring
    if sentence and (_is_text(node) or _is_plain_template(node)):
        return "text"
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        # What an error says makes no number; which one it is may, where it is caught.
        return f"Raise({_meaning(node.exc.func, describing)})"
    if isinstance(node, ast.Call):
        sentence = sentence or bool(_LOGS.fullmatch(_dotted(node.func)))
        node = _without_descriptions(node, describing)
    fields = (
        f"{name}={_meaning(value, describing, sentence)}"
        for name, value in ast.iter_fields(node)
        if name not in ("type_comment", "kind") and value is not None and value != []
    )
    return f"{type(node).__name__}({','.join(fields)})"


def _names_the_package(statement: ast.stmt) -> bool:
    """Whether a statement of a module assigns ``__version__`` or ``__all__``."""
    return isinstance(statement, ast.Assign) and all(
        isinstance(target, ast.Name) and target.id in _UNCOUNTED_NAMES
        for target in statement.targets
    )


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_plain_template(node: ast.AST) -> bool:
    """Whether a node is an f-string that assigns nothing."""
    return isinstance(node, ast.JoinedStr) and not any(
        isinstance(part, ast.NamedExpr) for part in ast.walk(node)
    )


def _called(function: ast.expr) -> str:
    """The last name of what is called, as in ``import_module`` of ``importlib``."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _dotted(function: ast.expr) -> str:
    """What is called, as in ``log.info``; empty if it is no name of a name."""
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        return f"{function.value.id}.{function.attr}"
    return ""


def _without_descriptions(node: ast.Call, describing: bool) -> ast.Call:
    """Calls that describe something, without its description: of progress bars and schemas."""
    called = node.func.id if isinstance(node.func, ast.Name) else ""
    if called == "tqdm":
        kept = [word for word in node.keywords if word.arg not in ("desc", "unit")]
        return ast.Call(node.func, node.args, kept)
    if describing and called == "field":  # name, type, description, unit
        kept = [word for word in node.keywords if word.arg not in ("description", "unit")]
        return ast.Call(node.func, node.args[:2], kept)
    if describing and called == "table":  # name, rows, columns
        return ast.Call(node.func, node.args[:1] + node.args[2:], node.keywords)
    return node


@cache
def schema_of(table: str) -> str:
    """The file of the package in which a table is described.

    Raises
    ------
    InputError
        If there is none.
    """
    for path in sorted((_PACKAGE / _DECLARING).glob("*.py")):
        if table in _tables(path):
            return path.relative_to(_PACKAGE).as_posix()
    raise InputError(f"{_PACKAGE / _DECLARING}: no table is called {table}; describe it there.")


@cache
def _tables(path: Path) -> list[str]:
    """Names of the tables that a file describes."""

    def find() -> list[str]:
        calls = (node for node in ast.walk(_tree(path)) if isinstance(node, ast.Call))
        named = (call.args[0] for call in calls if _called(call.func) == "table" and call.args)
        return [str(name.value) for name in named if isinstance(name, ast.Constant)]

    found: list[str] = _remembered("tables", path, find)
    return found
