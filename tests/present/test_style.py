"""What all figures share: legends that a figure has room for, and files without transparency."""

from pathlib import Path

import pytest
from matplotlib.lines import Line2D
from PIL import Image

from anchorflow.present.style import legend_below, save, small_multiples
from figure_style import STYLE

NAMES = [f"method number {number}" for number in range(5)]


@pytest.mark.parametrize(("panels", "columns"), [(1, 1), (2, 2), (12, 5)])
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
