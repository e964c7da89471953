"""The figure of all heads."""

from pathlib import Path
from typing import Any

import pytest

from anchorflow.analyses.kernel.plot import plot_kernel
from constructed.kernel import heads_summary as summary
from figure_style import STYLE


def test_the_figure_marks_the_best_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.axes import Axes

    titles: list[str] = []
    set_title = Axes.set_title

    def note(axes: Axes, text: str, *more: Any, **settings: Any) -> Any:
        titles.append(text)
        return set_title(axes, text, *more, **settings)

    monkeypatch.setattr(Axes, "set_title", note)
    plot_kernel(summary(), STYLE, 0.9, {"png": tmp_path / "heads.png"})
    assert titles[0].startswith("1.00 in layer 1, head 0\n[")
    assert titles[1] == f"{titles[0]}, constant 0.50"
    assert (tmp_path / "heads.png").stat().st_size > 5000
