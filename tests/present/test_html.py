"""A table as a page."""

import polars as pl

from anchorflow.present.html import html_table


def test_a_table_s_page_escapes_its_cells_and_sets_off_intervals() -> None:
    frame = pl.DataFrame(
        {"model": ["a", "a"], "task": ["<b>", "<b>"], "auc": ["0.50 [0.40, 0.60] (1 skipped)", "–"]}
    )
    page = html_table("A & B", "Read <i>so</i>.", frame)
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
        body = html_table("", "", frame).partition("<tbody>")[2]
        return ["first" in row for row in body.splitlines() if row.startswith("<tr")]

    assert marks("aabb") == [True, False, True, False]
    assert marks("abbc") == [True, False, False, False]
