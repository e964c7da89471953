"""Imported before forks: syntax trees of the workflow's modules, of which all runs take digests.

Parsing some 300 files, and writing their trees down for the digests, takes longer than the rest of
a dry run. A file of a copied project that has the same bytes as one of this project gets that one's
syntax tree, and the text of that tree; an edited file is parsed as ever.
"""

import ast
import gc
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from anchorflow.config.digests import _meaning

_WORKFLOW = Path(__file__).parents[2] / "workflow"
_parse, _iter_fields = ast.parse, ast.iter_fields
_TREES = {file: _parse(file) for file in (path.read_bytes() for path in _WORKFLOW.rglob("*.py"))}


class _Written:
    """Stands for a tree's statements where their text is asked for, which is their digest's."""

    def __init__(self, statements: list[ast.stmt]) -> None:
        self.text = _meaning(statements)

    def __repr__(self) -> str:
        return self.text


_WRITTEN = {tree: _Written(tree.body) for tree in _TREES.values() if tree.body}


def _parsed(source: Any, *rest: Any, **how: Any) -> Any:
    known = _TREES.get(source) if isinstance(source, bytes) else None
    return known or _parse(source, *rest, **how)


def _fields(node: ast.AST) -> Iterator[tuple[str, Any]]:
    written = _WRITTEN.get(node) if isinstance(node, ast.Module) else None
    return iter([("body", written)]) if written else _iter_fields(node)


ast.parse, ast.iter_fields = _parsed, _fields
for _name in [name for name in sys.modules if name.partition(".")[0] == "anchorflow"]:
    del sys.modules[_name]  # a run has those of its own copy
gc.freeze()  # so that collections in forks do not write to, and copy, shared pages
