"""All figures: on a page, however many tasks there are, and also where a task was skipped whole."""

from collections.abc import Callable
from inspect import signature
from typing import Any

import polars as pl
import pytest
from matplotlib.figure import Figure

from anchorflow.analyses.confusion.plot import plot_confusion
from anchorflow.analyses.reweighting.plot import plot_reweighting
from anchorflow.analyses.timing.plot import plot_timing
from anchorflow.config.registry import load
from anchorflow.config.stages import ANALYSES, folder_of
from anchorflow.present.style import PAGE
from constructed.summaries import (
    LAYERS,
    MANY,
    SUMMARIES,
    confused,
    of_many,
    shown,
    timed,
    with_a_task_skipped_whole,
)
from figure_style import figure_of, labels_of

STYLE: dict[str, Any] = {
    "panel_width": 2.6,  # the default
    "font_size": 8,
    "resolution": 60,
    "colors": ["#0072B2", "#D55E00", "#595959"],
}
PLOTTED = [name for name, analysis in ANALYSES.items() if analysis.figure]
OTHERS = ["reweighting", "timing"]  # of measured tables
# In which tasks are averaged, or stand beside one another.
WITHOUT_PANELS = [
    *("isolation", "compression", "orders", "retrieval", "ablation", "cutoff", "faithfulness"),
    *("knockout", "transplant", "vectors", "additivity"),
]
AVERAGED = ["heads", "probes", "theory"]  # without a panel per task


def plot_of(name: str) -> Callable[..., None]:
    plot: Callable[..., None] = getattr(load(folder_of(name), "plot"), f"plot_{name}")
    return plot


def reads_beyond_the_page(figure: Figure) -> bool:
    """Whether something is drawn beside the figure or above it, and so cut off."""
    figure.draw_without_rendering()
    box = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    return box.x0 < -0.05 or box.y0 < -0.05 or box.x1 > width + 0.05 or box.y1 > height + 0.05


def fits(figure: Figure) -> bool:
    return figure.get_figwidth() <= PAGE + 1e-9 and not reads_beyond_the_page(figure)


def drawn(monkeypatch: pytest.MonkeyPatch, name: str, summary: pl.DataFrame) -> Figure:
    plot = plot_of(name)
    tables = shown(name, summary, signature(plot).parameters)
    return figure_of(monkeypatch, plot, style=STYLE, **tables)


def test_every_figure_is_drawn_here() -> None:
    assert {*PLOTTED} <= {*SUMMARIES, *OTHERS}


@pytest.mark.parametrize("name", [name for name in PLOTTED if name not in OTHERS])
def test_a_figure_is_never_wider_than_a_page_and_nothing_is_cut_off(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = SUMMARIES[name]()
    few = drawn(monkeypatch, name, summary)
    assert fits(few)
    if name not in AVERAGED:
        many = drawn(monkeypatch, name, of_many(summary))
        assert fits(many)
        panels = [[p for p in figure.axes if p.get_visible()] for figure in (few, many)]
        assert len(panels[1]) > len(panels[0]) or name in WITHOUT_PANELS


@pytest.mark.parametrize("name", [name for name in PLOTTED if name not in (*OTHERS, "theory")])
def test_a_task_that_was_skipped_whole_leaves_no_figure_undrawn(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    figure = drawn(monkeypatch, name, with_a_task_skipped_whole(SUMMARIES[name]()))
    figure.draw_without_rendering()


@pytest.mark.parametrize("tasks", [["one"], MANY], ids=len)
def test_times_and_fitted_weights_are_on_a_page(
    tasks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = timed(tasks)
    labels = labels_of(tables["compression"])
    assert fits(figure_of(monkeypatch, plot_timing, **tables, labels=labels, style=STYLE))
    keys = {"model": "m", "seed": 0, "demonstration": 0, "beta": 0.1}
    cells = [{**keys, "layer": layer, "head": head} for layer in LAYERS for head in range(8)]
    beta = pl.concat(pl.DataFrame(cells).with_columns(task=pl.lit(task)) for task in tasks)
    assert fits(figure_of(monkeypatch, plot_reweighting, beta=beta, style=STYLE))


def test_of_twenty_labels_the_names_of_the_most_confused_ones_are_legible(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = confused(20)
    figure = figure_of(monkeypatch, plot_confusion, table, labels_of(table, 20), style=STYLE)
    names = figure.axes[0].get_yticklabels()
    assert len(names) == 14
    assert min(name.get_fontsize() for name in names) > 5.5
    assert figure.axes[1].get_title() == "14 of 20 labels, most confused"
    assert not reads_beyond_the_page(figure)
