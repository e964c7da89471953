"""A table in LaTeX with the rules of booktabs, for papers."""

import re
from collections.abc import Mapping, Sequence

import polars as pl

_ESCAPED = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "–": "--",
    "…": r"\ldots{}",
    "✓": r"$\checkmark$",  # of the package amssymb
    "✗": r"$\times$",
    "−": "$-$",
    "×": r"$\times$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "→": r"$\rightarrow$",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "ρ": r"$\rho$",
    "Σ": r"$\Sigma$",
}


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
    return "".join(_ESCAPED.get(character, character) for character in " ".join(text.split()))
