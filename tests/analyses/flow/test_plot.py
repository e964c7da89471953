"""The figure of information flows: what it draws of the paper's flows and of their controls."""

from itertools import product
from pathlib import Path

import polars as pl
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from anchorflow.analyses.flow import plot
from anchorflow.analyses.flow.plot import plot_flow
from anchorflow.analyses.flow.schema import FLOW_SUMMARY
from anchorflow.analyses.flow.summarize import measures
from anchorflow.present.style import thin
from anchorflow.schemas.frames import frame_schema
from figure_style import STYLE


def summary(tasks: tuple[str, ...]) -> pl.DataFrame:
    """A table of two layers; in the last one, nothing flows into label words."""
    rows = []
    for task, layer, (flow, scale) in product(tasks, range(2), measures()):
        last = layer == 1 and flow == "into_share"
        mean = None if last else 0.25 + layer / 4
        rows.append(("tiny", task, layer, flow, scale, mean, mean, mean, 3, 1, 0))
    return pl.DataFrame(rows, schema=frame_schema(FLOW_SUMMARY), orient="row")


@pytest.mark.parametrize("tasks", [("news", "average"), ("news", "reviews", "average")])
def test_controls_are_thin_lines_and_label_words_stand_against_one_half(
    tasks: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plot_flow(summary(tasks), STYLE, 0.95, {"png": tmp_path / "flow.png"})
    assert (tmp_path / "flow.png").stat().st_size > 0
    figures: list[Figure] = []
    monkeypatch.setattr(plot, "save", lambda figure, paths: figures.append(figure))
    plot_flow(summary(tasks), STYLE, 0.95, {})
    columns = len(tasks) if len(tasks) > 2 else 1
    assert len(figures[0].axes) == 3 * columns
    shares, absolute, ratios = figures[0].axes[::columns]
    for panel in (shares, absolute):
        widths = [line.get_linewidth() for line in panel.get_lines()]
        assert len(widths) == 3 + 9
        assert widths.count(thin(0)["linewidth"]) == 9
    drawn = [list(line.get_ydata()) for line in ratios.get_lines()]  # type: ignore[arg-type]
    assert [0.5, 0.5] in drawn
    assert len(drawn) == 4
    names = [text.get_text() for text in figures[0].legends[0].get_texts()]
    assert len(names) == len(set(names)) == 9


def absolute_panel(
    rows: pl.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Axes, Path]:
    path = tmp_path / "flow.png"
    plot_flow(rows, STYLE, 0.95, {"png": path})
    figures: list[Figure] = []
    monkeypatch.setattr(plot, "save", lambda figure, paths: figures.append(figure))
    plot_flow(rows, STYLE, 0.95, {})
    return figures[0].axes[1], path


def test_values_whose_interval_reaches_zero_are_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leaving them out would let a straight line bridge them."""
    rows = summary(("news", "average")).with_columns(low=pl.lit(-0.1))
    panel, path = absolute_panel(rows, tmp_path, monkeypatch)
    assert path.stat().st_size > 0
    assert all(len(line.get_xdata()) == 2 for line in panel.get_lines())  # type: ignore[arg-type]
    assert panel.get_ylim()[0] == pytest.approx(0.25 / 3)


def test_flows_that_are_all_zero_are_said_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of answers so certain that no attention matters in the number format."""
    zero = pl.when(pl.col("scale") == "absolute").then(0.0).otherwise("mean")
    panel, path = absolute_panel(
        summary(("news", "average")).with_columns(mean=zero, low=zero), tmp_path, monkeypatch
    )
    assert path.stat().st_size > 0
    assert [text.get_text() for text in panel.texts] == ["all are 0"]
