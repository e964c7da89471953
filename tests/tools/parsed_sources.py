"""Imported before forks: syntax trees of the workflow's modules, of which all runs take digests.

Parsing some 300 files takes longer than the rest of a dry run. A file of a copied project that has
the same bytes as one of this project gets that one's syntax tree; an edited file is parsed as ever.
"""

import ast
import gc
from pathlib import Path
from typing import Any

_WORKFLOW = Path(__file__).parents[2] / "workflow"
_parse = ast.parse
_TREES = {file: _parse(file) for file in (path.read_bytes() for path in _WORKFLOW.rglob("*.py"))}


def _parsed(source: Any, *rest: Any, **how: Any) -> Any:
    known = _TREES.get(source) if isinstance(source, bytes) else None
    return known or _parse(source, *rest, **how)


ast.parse = _parsed
gc.freeze()  # so that collections in forks do not write to, and copy, shared pages
