"""Examples in the documentation, for tests that run them."""

from checkout import ROOT


def python_example(call: str) -> str:
    """The one block of Python with a certain call, in the README or the pages under docs."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    blocks = [
        block.partition("```")[0]
        for page in pages
        for block in page.read_text(encoding="utf-8").split("```python\n")[1:]
    ]
    (example,) = [block for block in blocks if call in block]
    return example
