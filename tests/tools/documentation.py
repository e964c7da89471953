"""Examples in the documentation, for tests that run them."""

from typing import Any

from checkout import ROOT


def python_examples(page: str) -> list[str]:
    """The blocks of Python on a page of the repository, in order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [block.partition("```")[0] for block in text.split("```python\n")[1:]]


def run_examples(*blocks: str, **names: Any) -> dict[str, Any]:
    """Run blocks one after the other with these names; all names at the end."""
    for block in blocks:
        exec(compile(block, "documentation", "exec"), names)
    return names
