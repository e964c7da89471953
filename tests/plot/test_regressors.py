"""The figure of in-context learning beside regressions."""

from pathlib import Path

from anchorflow.plot.regressors import plot_regressors
from constructed.regressors import summary
from figure_style import STYLE


def test_the_figure_is_plotted(tmp_path: Path) -> None:
    plot_regressors(summary(), STYLE, 0.9, {"png": tmp_path / "a.png"})
    assert (tmp_path / "a.png").stat().st_size > 5000
