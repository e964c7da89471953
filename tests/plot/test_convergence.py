"""The figure of kernel regression beside exact inference, also where distances are 0."""

from pathlib import Path

import polars as pl

from anchorflow.plot.convergence import plot_convergence
from anchorflow.summarize.convergence import summarize_convergence
from constructed.convergence import measured, summary
from figure_style import STYLE


def test_the_figure_is_plotted(tmp_path: Path) -> None:
    plot_convergence(summary(), STYLE, 0.9, {"png": tmp_path / "a.png"})
    assert (tmp_path / "a.png").stat().st_size > 5000


def test_one_kernel_and_distances_of_0_are_plotted(tmp_path: Path) -> None:
    least = measured().filter(kernel="theorem", ridge=1e-6).with_columns(distance=pl.lit(0.0))
    summarized = summarize_convergence(least, 0.9)
    plot_convergence(summarized, STYLE, 0.9, {"png": tmp_path / "a.png"})
    assert (tmp_path / "a.png").stat().st_size > 5000
