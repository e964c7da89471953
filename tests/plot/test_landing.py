"""The figure of where attention lands."""

from pathlib import Path

from anchorflow.plot.landing import plot_landing
from constructed.landing import summary
from figure_style import STYLE


def test_the_figure_is_plotted(tmp_path: Path) -> None:
    plot_landing(summary(), STYLE, 0.9, {"png": tmp_path / "a.png"})
    assert (tmp_path / "a.png").stat().st_size > 5000
