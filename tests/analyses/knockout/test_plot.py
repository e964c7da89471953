"""The figure of cut edges: over single layers, or over thirds of them."""

from pathlib import Path

import polars as pl
import pytest
from matplotlib.container import BarContainer
from matplotlib.figure import Figure

from anchorflow.analyses.knockout import plot
from anchorflow.analyses.knockout.plot import plot_knockout
from anchorflow.analyses.knockout.summarize import summarize_knockout
from constructed.interventions import knockout, prompts
from figure_style import STYLE

CUT = {
    (edges, control, 0): [0.3, 0.4 + 0.1 * control]
    for edges in ("label_to_target", "text_to_label", "first_to_all")
    for control in (False, True)
}


@pytest.mark.parametrize(
    ("bands", "labels"),
    [
        ([("single", 0, 1), ("single", 1, 1), ("last", 2, 1)], None),
        ([("first", 0, 1), ("middle", 1, 1), ("last", 2, 1), ("all", 0, 3)], 3),
        ([("all", 0, 3)], 1),
    ],
)
def test_every_class_has_a_panel_over_layers_or_thirds(
    bands: list[tuple[str, int, int]],
    labels: int | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain, *rest = [knockout(CUT, [0.5, 0.25], band) for band in bands]
    cut = pl.concat([plain, *(table.filter(pl.col("edges") != "none") for table in rest)])
    figures: list[Figure] = []
    monkeypatch.setattr(plot, "save", lambda figure, paths: figures.append(figure))
    plot_knockout(summarize_knockout(cut, prompts(), 0.95), STYLE, 0.95, {"png": tmp_path / "f"})
    panels = [panel for panel in figures[0].axes if panel.get_visible()]
    assert [panel.get_title() for panel in panels] == [
        "label words → target",
        "text → its label word",
        "first token → all",
    ]
    # Lines over two layers, or bars, since two or three points joined would look like a curve.
    lines = [len(line.get_xdata()) for panel in panels for line in panel.lines[:-1]]
    bars = [len(c) for p in panels for c in p.containers if isinstance(c, BarContainer)]
    if labels is None:
        assert (lines, bars) == ([2, 2] * len(panels), [])
    else:
        assert bars == [labels, labels] * len(panels)
