"""What all figures share: legends that a figure has room for, and files without transparency."""

from pathlib import Path

import polars as pl
import pytest
from matplotlib.lines import Line2D
from PIL import Image

from anchorflow.config.errors import InputError
from anchorflow.present.style import (
    PAGE,
    chance_levels,
    legend_below,
    name_y,
    of_tasks,
    save,
    small_multiples,
)
from figure_style import STYLE

NAMES = [f"method number {number}" for number in range(5)]


@pytest.mark.parametrize(("panels", "columns"), [(1, 1), (2, 2), (12, 4)])
def test_a_legend_has_as_many_columns_as_fit_and_the_figure_grows_by_the_others(
    panels: int, columns: int
) -> None:
    with small_multiples(STYLE, 1, panels, "title") as (figure, _):
        before = figure.get_figheight()
        legend_below(figure, [Line2D([], []) for _ in NAMES], NAMES)
        (legend,) = figure.legends
        size = legend.get_window_extent()
        assert size.width <= figure.bbox.width
        assert legend._ncols == columns
        lines = -(-len(NAMES) // columns)
        line = size.height / figure.dpi / lines
        assert figure.get_figheight() == pytest.approx(before + line * (lines - 1))


@pytest.mark.parametrize(
    ("columns", "lines", "abreast"), [(1, 1, 1), (4, 1, 4), (5, 2, 3), (21, 6, 4)]
)
@pytest.mark.parametrize("width", [1.5, 9.0])
def test_panels_beyond_a_page_s_width_continue_below(
    columns: int, lines: int, abreast: int, width: float
) -> None:
    style = {**STYLE, "panel_width": width}
    with small_multiples(style, 2, columns, "title") as (figure, axes):
        assert figure.get_figwidth() == pytest.approx(min(width * abreast, PAGE))
        assert [len(row) for row in axes] == [columns, columns]
        assert sum(panel.get_visible() for panel in figure.axes) == 2 * columns
        places = [panel.get_subplotspec() for panel in axes[0]]
        rows = [place.rowspan.start for place in places if place]
        assert sorted(set(rows)) == [2 * line for line in range(lines)]  # the second row between
        name_y(axes[1], "second")
        assert sum(panel.get_ylabel() == "second" for panel in axes[1]) == lines


def test_a_font_that_is_not_installed_is_refused() -> None:
    with small_multiples({**STYLE, "font": "DejaVu Serif"}, 1, 1, "title"):
        pass
    said = "figures.font: No Such Font is not installed; install it, name another, or leave it out"
    with (
        pytest.raises(InputError, match=said),
        small_multiples({**STYLE, "font": "No Such Font"}, 1, 1, "title"),
    ):
        pass


def test_a_guess_is_right_once_in_as_many_labels_averaged_over_tasks() -> None:
    labels = {"news": ["a", "b", "c", "d"], "reviews": ["a", "b"]}
    assert chance_levels(labels) == {"news": 0.25, "reviews": 0.5, "average": 0.375}


def test_a_png_file_has_no_transparency_and_keeps_its_resolution(tmp_path: Path) -> None:
    with small_multiples(STYLE, 1, 1, "title") as (figure, _):
        save(figure, {"png": tmp_path / "figure.png"})
    with Image.open(tmp_path / "figure.png") as image:
        assert image.mode == "RGB"
        assert image.info["dpi"] == pytest.approx((60, 60), abs=0.01)
        assert image.getpixel((0, 0)) == (255, 255, 255)


def test_a_pdf_s_fonts_are_embedded_without_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    with small_multiples(STYLE, 1, 1, "embedded") as (figure, _):
        save(figure, {"pdf": tmp_path / "figure.pdf"})
    assert not caplog.records


def test_a_figure_keeps_to_its_width_its_title_and_its_font() -> None:
    for tasks, width in ((12, 3.3), (12, 6.8), (1, 3.3)):
        style = {**STYLE, "panel_width": 2.6, "width": width, "font": "DejaVu Serif"}
        with small_multiples(style, 2, tasks, "a title") as (figure, rows):
            assert figure.get_figwidth() <= width + 1e-9
            assert len(rows[0]) == tasks
            assert figure.get_suptitle() == "a title"
            assert rows[0][0].title.get_fontname() == "DejaVu Serif"
    with small_multiples({**STYLE, "title": False}, 1, 1, "a title") as (figure, _):
        assert figure.get_suptitle() == ""


def test_tasks_are_those_listed_in_their_order_and_the_average() -> None:
    rows = pl.DataFrame({"task": ["a", "b", "c", "average", "b"], "mean": [1, 2, 3, 4, 5]})
    kept = of_tasks(rows, {"tasks": ["c", "b"]})
    assert kept["task"].to_list() == ["c", "b", "b", "average"]
    assert kept["mean"].to_list() == [3, 2, 5, 4]
    assert of_tasks(rows, {"tasks": []}).equals(rows)
    assert of_tasks(rows, {}).equals(rows)
    alike = pl.DataFrame({"mean": [1]})
    assert of_tasks(alike, {"tasks": ["c"]}).equals(alike)
