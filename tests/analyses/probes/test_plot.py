"""The figure of what probes decode, also where they decode nothing."""

from pathlib import Path

from anchorflow.analyses.probes.plot import plot_probes
from constructed.kernel import probes_summary as summary
from constructed.kernel import summary_of_nothing
from figure_style import STYLE


def test_the_figure_is_plotted(tmp_path: Path) -> None:
    plot_probes(summary(), STYLE, 0.9, {"png": tmp_path / "a.png"})
    assert (tmp_path / "a.png").stat().st_size > 5000


def test_nothing_to_decode_is_plotted_as_such(tmp_path: Path) -> None:
    plot_probes(summary_of_nothing(), STYLE, 0.9, {"png": tmp_path / "a.png"})
