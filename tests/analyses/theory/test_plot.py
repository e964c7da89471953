"""The figure of kernel regression beside exact inference, also where distances are 0."""

from pathlib import Path

import polars as pl

from anchorflow.analyses.theory.plot import plot_theory
from anchorflow.analyses.theory.summarize import summarize_theory
from constructed.theory import measured, summary
from figure_style import STYLE


def test_the_figure_is_plotted(tmp_path: Path) -> None:
    plot_theory(summary(), STYLE, 0.9, {"png": tmp_path / "a.png"})
    assert (tmp_path / "a.png").stat().st_size > 5000


def test_one_kernel_and_distances_of_0_are_plotted(tmp_path: Path) -> None:
    least = measured().filter(kernel="theorem", ridge=1e-6).with_columns(distance=pl.lit(0.0))
    summarized = summarize_theory(least, 0.9)
    plot_theory(summarized, STYLE, 0.9, {"png": tmp_path / "a.png"})
    assert (tmp_path / "a.png").stat().st_size > 5000
