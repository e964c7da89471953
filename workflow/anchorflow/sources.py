"""Which of this package's modules a script needs, read from the imports themselves."""

import ast
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).parent
_SUFFIXES = (".py", ".html", ".css", ".js")


def modules_imported_by(script: str | Path) -> list[str]:
    """Paths of all modules of this package that ``script`` imports, directly or through others.

    A page's template, style and script, of a module's name, come with it. The package's
    ``__init__`` holds no code and is left out, so that editing its docstring rebuilds nothing.
    """
    found: set[Path] = set()
    waiting = [Path(script)]
    while waiting:
        for module in _direct_imports(waiting.pop()):
            if module not in found:
                found.add(module)
                waiting.append(module)
    return sorted(
        str(path)
        for module in found
        for suffix in _SUFFIXES
        if (path := module.with_suffix(suffix)).is_file()
    )


@cache
def _direct_imports(path: Path) -> tuple[Path, ...]:
    modules = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            package, _, rest = name.partition(".")
            module = _PACKAGE.joinpath(*rest.split(".")).with_suffix(".py")
            if package == _PACKAGE.name and rest and module.is_file():
                modules.append(module)
    return tuple(modules)
