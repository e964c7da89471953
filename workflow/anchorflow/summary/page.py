"""The page in its three forms: HTML, Markdown, and for a terminal.

A cell may have a second line with details, and links and code as in Markdown.
"""

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import zip_longest
from pathlib import Path

import polars as pl

from anchorflow.config.errors import InputError
from anchorflow.present.markup import html_page
from anchorflow.present.page import markdown_lines
from anchorflow.store.replacing import replacing

WIDTH = 100  # columns of a terminal

_STYLE = """
body { max-width: 78rem; margin: 1.5rem auto; padding: 0 1rem; }
th, td { white-space: normal; vertical-align: top; padding: 0.35rem 0.6rem; }
li { max-width: 60rem; margin: 0.25rem 0; }
small { display: block; color: #6a6a6a; }
b.holds { color: #1a7f37; } b.fails { color: #b42318; } b.unclear { color: #8a6100; }
code { font-size: 0.9em; overflow-wrap: anywhere; }
@media (min-width: 641px) { .questions td:nth-child(-n+2) { min-width: 9rem; } }
@media (max-width: 640px) {
  table, tbody, tr, td { display: block; }
  thead { display: none; }
  tr { border-bottom: 2px solid #b5b5b5; padding: 0.5rem 0; }
  td { border: 0; padding: 0.1rem 0; }
  td::before { content: attr(data-column) ": "; color: #6a6a6a; }
  td:first-child { font-weight: 600; }
  td:first-child::before, td.empty { content: none; display: none; }
}
"""
# Elsewhere, as in the workflow's report, the figures are not where links lead.
_SCRIPT = """<script>
if (!location.pathname.endsWith("/summary.html") || location.pathname.includes("/data/"))
  for (const link of document.links) link.outerHTML = link.innerHTML;
</script>"""
BACKTICK = "\ue000"  # one that is in a text, and begins no code
_LINK = re.compile(r"\[([^]]*)\]\(((?:figures|tables)/[^)]*)\)")
_CODE = re.compile(r"`([^`]*)`")
_LITERAL = re.compile(r"\\([\\`*<])")  # what Markdown would read otherwise, as escaped here
_SIGNS = {"✓": "holds", "✗": "fails", "?": "unclear"}


@dataclass(frozen=True)
class Section:
    """A heading with sentences, a table below them, and a note on the table."""

    title: str
    sentences: Sequence[str] = ()
    table: pl.DataFrame | None = None
    note: str = ""


def write_summary(paths: Mapping[str, str | Path], title: str, sections: Iterable[Section]) -> None:
    """Write a page as Markdown to ``paths["md"]`` and as HTML to ``paths["html"]``."""
    parts = list(sections)
    texts = {"md": _markdown(title, parts), "html": _html(title, parts)}
    for kind, text in texts.items():
        with replacing(paths[kind]) as temporary:
            temporary.write_text(text, encoding="utf-8")


def _markdown(title: str, sections: Iterable[Section]) -> str:
    lines = [f"# {title}"]
    for section in sections:
        lines += ["", f"## {section.title}"]
        lines += ["", *(f"- {_literal(sentence)}" for sentence in section.sentences)] * bool(
            section.sentences
        )
        if section.table is not None:
            frame = section.table.with_columns(
                pl.all()
                .map_elements(_literal, pl.String)
                .str.replace(r"\n(.*)", "<br><small>$1</small>")
            )
            lines += ["", *markdown_lines(frame)]
        lines += ["", _literal(section.note)] * bool(section.note)
    return "\n".join([*lines, ""])


def _literal(text: str) -> str:
    """Text for Markdown, in which only links and code are marked."""
    parts = re.split(r"(\[[^]]*\]\((?:figures|tables)/[^)]*\)|`[^`]*`)", text)
    parts[::2] = [re.sub(r"([\\`*<])", r"\\\1", part) for part in parts[::2]]
    return "".join(parts).replace(BACKTICK, r"\`")


def _html(title: str, sections: Iterable[Section]) -> str:
    body = []
    for section in sections:
        body.append(f"<h2>{escape(section.title)}</h2>")
        if section.sentences:
            items = "".join(f"<li>{_inline(sentence)}</li>" for sentence in section.sentences)
            body.append(f"<ul>{items}</ul>")
        if section.table is not None:
            body.append(_table(section.table))
        if section.note:
            body.append(f"<p>{_inline(section.note)}</p>")
    return html_page(title, [*body, _SCRIPT], _STYLE)


def _table(frame: pl.DataFrame) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in frame.columns)
    rows = (
        "".join(_cell(name, value) for name, value in zip(frame.columns, row, strict=True))
        for row in frame.iter_rows()
    )
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    kind = f"{frame.columns[0]}s".replace(" ", "-")
    return (
        f'<div class="{kind}"><table><thead><tr>{head}</tr></thead>\n'
        f"<tbody>{body}</tbody></table></div>"
    )


def _cell(column: str, value: str) -> str:
    main, _, details = value.partition("\n")
    sign, _, number = main.partition(" ")
    if sign in _SIGNS:
        text = f'<b class="{_SIGNS[sign]}">{sign}</b> {_inline(number)}'
    else:
        text = _inline(main)
    more = f"<small>{_inline(details)}</small>" if details else ""
    empty = "" if value else ' class="empty"'
    return f'<td{empty} data-column="{escape(column)}">{text}{more}</td>'


def _inline(text: str) -> str:
    linked = _LINK.sub(r'<a href="\2">\1</a>', escape(text))
    return _CODE.sub(r"<code>\1</code>", linked).replace(BACKTICK, "`")


def page_of(folder: Path) -> str:
    """The summary page of the run in a folder, for a terminal."""
    page = folder / "results" / "summary.md"
    if not page.is_file():
        raise InputError(f"{page}: no such file; finish the run first.")
    return for_terminal(page.read_text(encoding="utf-8"))


def for_terminal(markdown: str) -> str:
    """A page's Markdown for a terminal of ``WIDTH`` columns: no links, figures or details."""
    plain = re.sub(r"<br><small>.*?</small>", "", _LINK.sub(r"\1", markdown)).replace(r"\|", "¦")
    plain = _LITERAL.sub(r"\1", plain)
    lines: list[str] = []
    rows: list[list[str]] = []
    for line in [*plain.splitlines(), ""]:
        if line.startswith("|"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            rows += [] if set(line) <= set("|-") else [cells]
            continue
        lines += _aligned(rows)
        rows = []
        indent = "  " if line.startswith("- ") else ""
        wrapped = textwrap.wrap(line.lstrip("# "), WIDTH, subsequent_indent=indent)
        lines += [line.lstrip("# ").upper()] if line.startswith("#") else wrapped or [""]
    return "\n".join(lines)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """A table in columns; if too wide, without intervals, or wrapped without its last column."""
    if not rows:
        return []
    bare = [[re.sub(r" \[[^]]*\]", "", cell) for cell in row] for row in rows]
    table = next((some for some in (rows, bare) if sum(_widths(some)) <= WIDTH), None)
    table = table or [row[:-1] for row in rows]
    widths = _widths(table)
    while sum(widths) > WIDTH:
        widths[widths.index(max(widths))] -= 1
    lines = []
    for row in table:
        sized = zip(row, widths, strict=True)
        wrapped = [textwrap.wrap(cell, width - 2) or [""] for cell, width in sized]
        for parts in zip_longest(*wrapped, fillvalue=""):
            padded = (part.ljust(width) for part, width in zip(parts, widths, strict=True))
            lines.append("".join(padded).rstrip())
    return lines


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """Of columns, with two spaces after each."""
    return [2 + max(map(len, column)) for column in zip(*rows, strict=True)]
