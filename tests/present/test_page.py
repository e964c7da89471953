"""Tables for people: cells, the chosen layers, and whole files."""

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from anchorflow.present.markup import html_table, latex_table
from anchorflow.present.page import Page, at_depths, cell, write_csv, write_page


@pytest.mark.parametrize(
    ("mean", "low", "high", "text"),
    [
        (0.614, 0.546, 0.679, "0.61 [0.55, 0.68]"),
        (0.5, None, None, "0.50"),
        (None, None, None, "–"),
        (1.0, 1.0, 1.0, "1.00 [1.00, 1.00]"),
        (-0.001, -0.01, -0.0, "0.00 [-0.01, 0.00]"),
    ],
)
def test_a_cell_shows_a_value_with_its_interval(
    mean: float | None, low: float | None, high: float | None, text: str
) -> None:
    assert cell(mean, low, high) == text


@pytest.mark.parametrize(
    ("layers", "chosen"), [(1, [0]), (3, [0, 1, 2]), (5, [0, 1, 2, 3, 4]), (24, [0, 6, 12, 17, 23])]
)
def test_five_depths_are_shown_or_all_layers_of_a_shallow_model(
    layers: int, chosen: list[int]
) -> None:
    summary = pl.DataFrame({"model": ["tiny"] * layers, "layer": range(layers)})
    assert at_depths(summary)["layer"].to_list() == chosen


def test_depths_are_those_of_each_model() -> None:
    summary = pl.DataFrame({"model": ["a"] * 9 + ["b"] * 2, "layer": [*range(9), 0, 1]})
    assert at_depths(summary).rows() == [("a", i) for i in (0, 2, 4, 6, 8)] + [("b", 0), ("b", 1)]


def test_markdown_is_a_title_a_table_and_a_note(tmp_path: Path) -> None:
    frame = pl.DataFrame({"model": ["a", "b"], "auc": ["0.50", "–"]})
    lines = "# Depth\n\n| model | auc |\n|---|---|\n| a | 0.50 |\n| b | – |\n\nHow to read it.\n"
    page = Page("Depth", "How to read it.", frame)
    write_page({"md": tmp_path / "table.md"}, page)
    assert (tmp_path / "table.md").read_text(encoding="utf-8") == lines
    write_page({"md": tmp_path / "table.md"}, replace(page, further={"More": frame[:1]}))
    more = "\n## More\n\n| model | auc |\n|---|---|\n| a | 0.50 |\n"
    assert (tmp_path / "table.md").read_text(encoding="utf-8") == lines + more


def test_no_cell_ends_its_cell_or_row(tmp_path: Path) -> None:
    frame = pl.DataFrame({"a|b": ["x | y\nz"], "<b>": ["<script>"]})
    write_page({kind: tmp_path / kind for kind in ("md", "html", "tex")}, Page("Title", "", frame))
    lines = (tmp_path / "md").read_text(encoding="utf-8").splitlines()
    assert lines[2:5] == [r"| a\|b | <b> |", "|---|---|", r"| x \| y z | <script> |"]
    page = (tmp_path / "html").read_text(encoding="utf-8")
    assert "<td>&lt;script&gt;</td>" in page
    assert "<script>" not in page


def test_csv_holds_all_rows_and_leaves_undefined_values_empty(tmp_path: Path) -> None:
    frame = pl.DataFrame({"task": ["news", "a, b"], "mean": [0.25, None]})
    write_csv(tmp_path / "deep" / "table.csv", frame)
    assert (tmp_path / "deep" / "table.csv").read_text(encoding="utf-8") == (
        'task,mean\nnews,0.25\n"a, b",\n'
    )


def test_a_table_s_page_escapes_its_cells_and_sets_off_intervals() -> None:
    frame = pl.DataFrame(
        {"model": ["a", "a"], "task": ["<b>", "<b>"], "auc": ["0.50 [0.40, 0.60] (1 skipped)", "–"]}
    )
    page = html_table("A & B", "Read <i>so</i>.", frame, {})
    assert "<h1>A &amp; B</h1>" in page
    assert "<p>Read &lt;i&gt;so&lt;/i&gt;.</p>" in page
    assert (
        '<tr class="first"><td>a</td><td>&lt;b&gt;</td>'
        "<td>0.50<span> [0.40, 0.60]</span> (1 skipped)</td></tr>\n"
        "<tr><td>a</td><td>&lt;b&gt;</td><td>–</td></tr>"
    ) in page


def test_a_table_s_page_sets_blocks_apart_but_not_every_row() -> None:
    def marks(tasks: str) -> list[bool]:
        frame = pl.DataFrame({"model": "m", "task": list(tasks), "mean": 0.5})
        body = html_table("", "", frame, {}).partition("<tbody>")[2]
        return ["first" in row for row in body.splitlines() if row.startswith("<tr")]

    assert marks("aabb") == [True, False, True, False]
    assert marks("abbc") == [True, False, False, False]


def test_a_table_has_rules_and_its_cells_are_escaped() -> None:
    frame = pl.DataFrame(
        {
            "label_words": ["50% & β", "a\\b {c}", "α → β"],
            "seeds": [3, 4, None],
            "holds": ["✓", "–", "≤ 1"],
        }
    )
    text = latex_table(
        "Title", "How to\nread it.", frame, {"More & so": pl.DataFrame({"x": ["#1"]})}
    )
    assert text.splitlines() == [
        r"% Needs \usepackage{booktabs,amssymb}.",
        r"\begin{table}",
        r"\centering",
        r"\caption{Title}",
        r"\label{tab:title}",
        r"\begin{tabular}{lrl}",
        r"\toprule",
        r"label\_words & seeds & holds \\",
        r"\midrule",
        r"50\% \& $\beta$ & 3 & $\checkmark$ \\",
        r"a\textbackslash{}b \{c\} & 4 & -- \\",
        r"$\alpha$ $\rightarrow$ $\beta$ & -- & $\leq$ 1 \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
        "% How to",
        "% read it.",
        "",
        r"\begin{table}",
        r"\centering",
        r"\caption{More \& so}",
        r"\label{tab:more-so}",
        r"\begin{tabular}{l}",
        r"\toprule",
        r"x \\",
        r"\midrule",
        r"\#1 \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
