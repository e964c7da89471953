"""Tables as standalone HTML pages, for the workflow's report, and in LaTeX, for papers."""

import re
from collections.abc import Iterable, Mapping, Sequence
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
    title: str, note: str, frame: pl.DataFrame, further: Mapping[str, pl.DataFrame]
) -> str:
    """A page with a title, the table, a note on how to read it, and further tables by their titles.

    The page loads nothing else. Intervals are gray, and a rule separates rows where the first
    columns change.
    """
    others = [f"<h2>{escape(name)}</h2>{_table(other)}" for name, other in further.items()]
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


_SIGNS = {"–": "--", "−": "$-$", "✓": r"$\checkmark$"}  # of which the last is of amssymb
_SIGNS |= {
    "✗": r"$\times$",
    "×": r"$\times$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "→": r"$\rightarrow$",
}
_SIGNS |= {"α": r"$\alpha$", "β": r"$\beta$", "ρ": r"$\rho$", "Σ": r"$\Sigma$", "…": r"\ldots{}"}
_NAMED = {"\\": "textbackslash", "~": "textasciitilde", "^": "textasciicircum"}
_NAMED |= {"<": "textless", ">": "textgreater", "|": "textbar"}
_ESCAPED = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {character: f"\\{name}{{}}" for character, name in _NAMED.items()}
    | _SIGNS
)


def latex_table(
    title: str, note: str, frame: pl.DataFrame, further: Mapping[str, pl.DataFrame]
) -> str:
    """A table, and further ones by their titles, each with its title as caption, and a label.

    The note on how to read the table is a comment.
    """
    parts = [
        "% Needs \\usepackage{booktabs,amssymb}.",
        *_tabular(title, frame),
        *(f"% {line}" for line in note.splitlines()),
    ]
    for name, other in further.items():
        parts += ["", *_tabular(name, other)]
    return "\n".join([*parts, ""])


def _tabular(title: str, frame: pl.DataFrame) -> list[str]:
    numbers = frame.select(pl.selectors.numeric()).columns
    alignment = "".join("r" if name in numbers else "l" for name in frame.columns)
    label = re.sub("[^a-z0-9]+", "-", title.lower()).strip("-")
    caption = _escaped(title)
    return [
        "\\begin{table}",
        "\\centering",
        f"\\caption{{{caption}}}",
        f"\\label{{tab:{label}}}",
        f"\\begin{{tabular}}{{{alignment}}}",
        r"\toprule",
        _row(frame.columns),
        r"\midrule",
        *(_row(row) for row in frame.iter_rows()),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]


def _row(values: Sequence[object]) -> str:
    cells = ("–" if value is None else str(value) for value in values)
    return f"{' & '.join(map(_escaped, cells))} \\\\"


def _escaped(text: str) -> str:
    return " ".join(text.split()).translate(_ESCAPED)
