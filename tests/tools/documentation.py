"""Examples in the documentation, for tests that run them."""

from typing import Any

from checkout import ROOT


def python_examples(page: str) -> list[str]:
    """The blocks of Python on a page of the repository, in order."""
    return _blocks(page, "python")


def shell_examples(page: str) -> list[str]:
    """The blocks of commands on a page of the repository, in order."""
    return _blocks(page, "sh")


def _blocks(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return [block.partition("```")[0] for block in text.split(f"```{language}\n")[1:]]


def run_examples(*blocks: str, **names: Any) -> dict[str, Any]:
    """Run blocks one after the other with these names; all names at the end."""
    for block in blocks:
        exec(compile(block, "documentation", "exec"), names)
    return names
