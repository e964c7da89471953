"""The figure of where attention lands."""

from pathlib import Path

from anchorflow.analyses.kernel.segments import segment_names
from anchorflow.analyses.landing.plot import plot_landing, segments_in_order
from constructed.kernel import PAIRS, summary_with_pairs
from constructed.kernel import landing_summary as summary
from figure_style import STYLE


def test_the_figure_is_plotted(tmp_path: Path) -> None:
    plot_landing(summary(), STYLE, 0.9, {"png": tmp_path / "a.png"})
    assert (tmp_path / "a.png").stat().st_size > 5000


def test_tasks_with_other_segments_stand_side_by_side(tmp_path: Path) -> None:
    plot_landing(summary_with_pairs(), STYLE, 0.9, {"png": tmp_path / "a.png"})
    assert (tmp_path / "a.png").stat().st_size > 5000
    shown = segments_in_order(summary_with_pairs().filter(task="reviews"))
    assert shown == segment_names(PAIRS)
