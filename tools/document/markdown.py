"""Pages in Markdown: templates of this folder, with tables."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import jinja2
import polars as pl

from anchorflow.present.page import markdown_lines

_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    keep_trailing_newline=True,
)


def page(template: str, **names: Any) -> str:
    """Render a template of this folder, such as ``results.md``, with the values of its names."""
    return _TEMPLATES.get_template(template).render(table=markdown_table, **names)


def markdown_table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Column names and rows, one line each."""
    return readable(pl.DataFrame(list(rows), schema=list(names), orient="row"))


def readable(frame: pl.DataFrame) -> str:
    """A table of text and numbers in Markdown."""
    return "\n".join(markdown_lines(frame.cast(pl.String).fill_null("–")))
