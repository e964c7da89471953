"""A table as a standalone page, for the workflow's report."""

import re
from collections.abc import Iterable, Mapping
from html import escape
from itertools import pairwise

import polars as pl

_STYLE = """
body { margin: 1.5rem; font: 15px/1.45 system-ui, sans-serif; color: #1a1a1a; background: #fff; }
h1 { font-size: 1.25rem; margin: 0 0 0.75rem; }
h2 { font-size: 1.1rem; margin: 1.5rem 0 0.75rem; }
p { max-width: 46rem; }
div { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 0.3rem 0.75rem; text-align: left; white-space: nowrap; }
th { border-bottom: 2px solid #444; }
td { border-bottom: 1px solid #e2e2e2; }
tr.first td { border-top: 2px solid #b5b5b5; }
tr.first:first-child td { border-top: 0; }
tr:hover td { background: #eef3f8; }
span { color: #6a6a6a; font-size: 0.87em; }
"""
_INTERVAL = re.compile(r"( \[[-\d., ]+\])")


def html_table(
    title: str, note: str, frame: pl.DataFrame, further: Mapping[str, pl.DataFrame] | None = None
) -> str:
    """A page with a title, the table, a note on how to read it, and further tables by their titles.

    The page loads nothing else. Intervals are gray, and a rule separates rows where the first
    columns change.
    """
    others = [f"<h2>{escape(name)}</h2>{_table(other)}" for name, other in (further or {}).items()]
    return html_page(title, [_table(frame), f"<p>{escape(note)}</p>", *others])


def html_page(title: str, body: Iterable[str], style: str = "") -> str:
    """A page with a title, parts in HTML, and rules for them beyond the common style."""
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            '<head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f"<style>{_STYLE}{style}</style></head>",
            f"<body><h1>{escape(title)}</h1>",
            *body,
            "</body></html>",
            "",
        ]
    )


def _table(frame: pl.DataFrame) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in frame.columns)
    return (
        f"<div><table><thead><tr>{head}</tr></thead>\n<tbody>{_rows(frame)}</tbody></table></div>"
    )


def _rows(frame: pl.DataFrame) -> str:
    """The rows, marked where the first two columns change; if most rows differ, the first one."""
    rows = frame.rows()
    blocks = sum(row[:2] != above[:2] for above, row in pairwise(rows)) + 1
    leading = 2 if 2 * blocks <= len(rows) else 1
    above, lines = None, []
    for row in rows:
        kind = "" if row[:leading] == above else ' class="first"'
        above = row[:leading]
        lines.append(f"<tr{kind}>{''.join(_cell(str(value)) for value in row)}</tr>")
    return "\n".join(lines)


def _cell(value: str) -> str:
    text = _INTERVAL.sub(r"<span>\1</span>", escape(value))
    return f"<td>{text}</td>"
