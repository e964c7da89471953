"""The figure of loyalty under isolation: with a sweep over layers or without, and neighbors."""

import polars as pl
import pytest

from anchorflow.analyses.isolation import ISOLATION_SUMMARY
from anchorflow.analyses.isolation.plot import plot_isolation
from anchorflow.present.style import thin
from anchorflow.schemas.frames import frame_schema
from figure_style import figure_of, level_of_chance

LABELS = {"news": [" a", " b", " c", " d"]}


def loyalty(counts: list[int], isolated: tuple[str, ...] = ("label", "random")) -> pl.DataFrame:
    """The table with these numbers of isolated layers."""
    rows = [
        {"model": "tiny", "task": task, "variant": "mask", "positions": positions, "side": side}
        | {"layers": layers, "measure": measure, "mean": 0.5, "low": 0.4, "high": 0.6}
        | {"examples": 6, "texts": 3, "seeds": 2, "draws": 1, "skipped": 0}
        for task in ("news", "average")
        for positions in isolated
        for side in ("first", "last")
        for layers in counts
        for measure in ISOLATION_SUMMARY.measured
    ]
    return pl.DataFrame(rows, schema=frame_schema(ISOLATION_SUMMARY))


@pytest.mark.parametrize("counts", [[5], [1, 5]])
def test_neighbors_are_thin_lines_named_after_the_paper_s_positions(
    counts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = [
        figure_of(monkeypatch, plot_isolation, loyalty(counts, isolated), LABELS)
        for isolated in (("label", "random"), ("after", "before", "label", "random"))
    ]
    assert len(figures[0].axes) == 4 * len(counts)  # a single number has no sweep below the bars
    without, beside = (
        [text.get_text() for text in figure.legends[0].get_texts()] for figure in figures
    )
    assert beside == [*without[:2], "token before", "token after", *without[2:]]
    widths = [line.get_linewidth() for line in figures[1].axes[0].get_lines()]
    assert widths.count(thin(0)["linewidth"]) == 4  # two neighbors, in the first and last layers


def test_over_numbers_of_layers_only_the_paper_s_positions_are_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The neighbors would be six more lines per panel, and are in the bars and the table."""
    isolated = ("after", "before", "label", "random", "text")
    figure = figure_of(monkeypatch, plot_isolation, loyalty([1, 5], isolated), LABELS)
    assert [len(panel.containers) for panel in figure.axes[4:]] == [4] * 4  # two in first and last
    assert all(len(panel.lines) == 4 for panel in (figure.axes[4], figure.axes[5]))


def test_accuracy_stands_beside_that_of_a_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    figure = figure_of(monkeypatch, plot_isolation, loyalty([1, 5]), LABELS)
    assert [level_of_chance(figure, panel) for panel in (2, 6)] == [0.25, 0.25]  # of four labels
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names[-1] == "chance"
