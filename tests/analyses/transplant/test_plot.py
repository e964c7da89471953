"""The figure of transplants over depth, and of tasks without any."""

from pathlib import Path

import polars as pl
import pytest
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.figure import Figure

from anchorflow.analyses.transplant import plot
from anchorflow.analyses.transplant.plot import plot_transplant
from anchorflow.analyses.transplant.summarize import summarize_transplant
from constructed.interventions import prompts, transplant
from figure_style import STYLE

OWN, DONOR = [0.25, 0.25, 0.75], [0.75, 0.5, 0.75]
BANDS = {
    "keys_values": [
        ("all", 0, 3),
        ("first", 0, 1),
        ("first", 0, 2),
        ("last", 2, 1),
        ("last", 1, 2),
    ],
    "residual": [("at", 0, 1), ("at", 1, 1)],
}


def test_every_panel_ends_with_what_all_layers_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [
        transplant({(what, places, 0): DONOR for places in ("label", "text")}, OWN, DONOR, band)
        for what, bands in BANDS.items()
        for band in bands
    ]
    whole = pl.concat(tables).unique(maintain_order=True)
    figures: list[Figure] = []
    monkeypatch.setattr(plot, "save", lambda figure, paths: figures.append(figure))
    summary = summarize_transplant(whole, prompts(), 0.95)
    plot_transplant(summary, STYLE, 0.95, {"png": tmp_path / "f"})
    upper = figures[0].axes[:3]
    bars = [bar for panel in upper for bar in panel.containers if isinstance(bar, BarContainer)]
    assert [bar.get_label() for bar in bars] == ["label words"] * 3
    centers = [[patch.get_x() + patch.get_width() / 2 for patch in bar] for bar in bars]
    assert centers == [pytest.approx([0, 1, 2])] * 2 + [pytest.approx([0, 1])]
    assert [tick.get_text() for tick in upper[0].get_xticklabels()] == ["0", "1", "2"]
    (marks,) = (m for m in upper[0].containers if m.get_label() == "equally many text tokens")
    assert isinstance(marks, ErrorbarContainer)
    assert len(marks.lines[0].get_xdata()) == 3
    assert marks.lines[0].get_linestyle() == "None"  # joined, they would look like a curve
    assert marks.has_yerr


def test_what_was_not_taken_has_no_panel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = transplant({("keys_values", "label", 0): DONOR}, OWN, DONOR)
    figures: list[Figure] = []
    monkeypatch.setattr(plot, "save", lambda figure, paths: figures.append(figure))
    plot_transplant(summarize_transplant(taken, prompts(), 0.95), STYLE, 0.95, {"png": tmp_path})
    assert len(figures[0].axes) == 2 * 2


def test_a_run_without_any_donor_has_an_empty_figure(tmp_path: Path) -> None:
    bare = transplant({}, OWN, DONOR).filter(pl.col("what") == "none")
    path = tmp_path / "figure.png"
    plot_transplant(summarize_transplant(bare, prompts(), 0.95), STYLE, 0.95, {"png": path})
    assert path.stat().st_size > 1000
