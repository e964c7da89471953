"""The figure of what probes decode, also where they decode nothing."""

from pathlib import Path

import pytest
from matplotlib.image import imread

from anchorflow.analyses.probes.plot import plot_probes
from constructed.kernel import probes_summary as summary
from constructed.kernel import summary_of_nothing
from figure_style import STYLE


def test_the_figure_is_plotted(tmp_path: Path) -> None:
    plot_probes(summary(), STYLE, 0.9, {"png": tmp_path / "a.png"})
    assert (tmp_path / "a.png").stat().st_size > 5000


def test_a_single_target_has_keys_and_values_side_by_side(tmp_path: Path) -> None:
    both, one = tmp_path / "both.png", tmp_path / "one.png"
    plot_probes(summary(), STYLE, 0.9, {"png": both})
    plot_probes(summary().filter(target="label"), STYLE, 0.9, {"png": one})
    (height, width, _), (of_both, as_wide, _) = imread(one).shape, imread(both).shape
    assert width == pytest.approx(as_wide, rel=0.1)
    assert height < 0.75 * of_both


def test_nothing_to_decode_is_plotted_as_such(tmp_path: Path) -> None:
    plot_probes(summary_of_nothing(), STYLE, 0.9, {"png": tmp_path / "a.png"})
