"""All figures with a column or a row per task: on a page, however many tasks there are."""

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from matplotlib.figure import Figure

from anchorflow.analyses.attention import ATTENTION_SUMMARY
from anchorflow.analyses.attention.plot import plot_attention
from anchorflow.analyses.confusion.plot import plot_confusion
from anchorflow.analyses.confusion.summarize import summarize_confusion
from anchorflow.analyses.flow import FLOW_SUMMARY
from anchorflow.analyses.flow.plot import plot_flow
from anchorflow.analyses.flow.summarize import measures
from anchorflow.analyses.kernel.plot import plot_kernel
from anchorflow.analyses.label_words.plot import plot_label_words
from anchorflow.analyses.landing.plot import plot_landing
from anchorflow.analyses.orders.plot import plot_orders
from anchorflow.analyses.perturbations.plot import plot_perturbations
from anchorflow.analyses.perturbations.summarize import summarize_perturbations
from anchorflow.analyses.regressors.plot import plot_regressors
from anchorflow.analyses.retrieval.plot import plot_retrieval
from anchorflow.analyses.reweighting.plot import plot_reweighting
from anchorflow.analyses.timing.plot import plot_timing
from anchorflow.present.style import PAGE
from anchorflow.schemas.frames import frame_schema
from constructed import confusion, kernel, label_words, orders, retrieval
from constructed.perturbations import tables_of
from constructed.timing import retention_of, timings_of
from figure_style import figure_of, labels_of

STYLE: dict[str, Any] = {
    "panel_width": 2.6,  # the default
    "font_size": 8,
    "resolution": 60,
    "colors": ["#0072B2", "#D55E00", "#595959"],
}

TASKS = [f"task {number}" for number in range(20)]
LAYERS = range(12)


def of_many(summary: pl.DataFrame) -> pl.DataFrame:
    """The rows of a summary's first task for each of twenty tasks, and its rows of the average."""
    first = summary.filter(task=summary["task"][0])
    averaged = summary.filter(task="average")
    rows = [first.with_columns(task=pl.lit(task)) for task in TASKS]
    return pl.concat([*rows, averaged])


def by_layer(schema: Any, *keys: dict[str, str]) -> pl.DataFrame:
    """A summary whose values are all alike, with one row per layer for each of ``keys``."""
    rows = [
        {"model": "m", "task": task, "layer": layer, **key, "mean": 0.4, "low": 0.3, "high": 0.5}
        | {"examples": 6, "texts": 3, "seeds": 2, "skipped": 0, "unpredicted": 0}
        for task in ("one", "average")
        for layer in LAYERS
        for key in keys
    ]
    columns = frame_schema(schema)
    return pl.DataFrame(rows).select(pl.col(name).cast(columns[name]) for name in columns)


def flow() -> pl.DataFrame:
    return by_layer(FLOW_SUMMARY, *({"flow": name, "scale": scale} for name, scale in measures()))


def attention() -> pl.DataFrame:
    return by_layer(
        ATTENTION_SUMMARY, {"measure": "auc"}, {"measure": "auc_other"}, {"measure": "cumulative"}
    )


def fitted() -> pl.DataFrame:
    keys = {"model": "m", "seed": 0, "demonstration": 0}
    cells = [{**keys, "layer": at, "head": head, "beta": 0.1} for at in LAYERS for head in range(8)]
    return pl.concat(pl.DataFrame(cells).with_columns(task=pl.lit(task)) for task in TASKS)


def confused(classes: int, tasks: list[str]) -> pl.DataFrame:
    far = [0.1 + pair / 1000 for pair in range(classes * (classes - 1) // 2)]
    cells = [confusion.cell(task, 0, classes, far) for task in tasks]
    predictions, diagnosis = (pl.concat(parts) for parts in zip(*cells, strict=True))
    prompts = confusion.prompts_of(predictions)
    return summarize_confusion(predictions, diagnosis, prompts, 0.9)


def reads_beyond_the_page(figure: Figure) -> bool:
    """Whether something is drawn beside the figure or above it, and so cut off."""
    figure.draw_without_rendering()
    box = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    return box.x0 < -0.05 or box.y0 < -0.05 or box.x1 > width + 0.05 or box.y1 > height + 0.05


LABELED: dict[str, tuple[Callable[..., None], Callable[[], pl.DataFrame]]] = {
    "perturbations": (
        plot_perturbations,
        lambda: summarize_perturbations(**tables_of("news", 2), confidence=0.9),
    ),
    "regressors": (plot_regressors, kernel.regressors_summary),
    "retrieval": (plot_retrieval, retrieval.with_a_task_skipped_whole),
}
ALONE: dict[str, tuple[Callable[..., None], Callable[[], pl.DataFrame]]] = {
    "kernel": (plot_kernel, kernel.heads_summary),
    "attention": (plot_attention, attention),
    "flow": (plot_flow, flow),
    "landing": (plot_landing, kernel.landing_summary),
    "orders": (plot_orders, orders.summary),
}


@pytest.mark.parametrize("name", [*LABELED, *ALONE, "confusion", "label_words", "timing"])
@pytest.mark.parametrize("many", [False, True])
def test_a_figure_is_never_wider_than_a_page_and_nothing_is_cut_off(
    name: str, many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables: list[Any]
    if name in LABELED:
        plot, summary = LABELED[name]
        table = of_many(summary()) if many else summary()
        tables = [table, labels_of(table)]
    elif name in ALONE:
        plot, summary = ALONE[name]
        tables = [of_many(summary()) if many else summary()]
    elif name == "confusion":
        plot = plot_confusion
        table = confused(6, TASKS if many else ["one"])
        tables = [table, labels_of(table, 6)]
    elif name == "label_words":
        plot = plot_label_words
        table = label_words.summary()
        words = label_words.WORDS
        if many:
            table = of_many(table)
            words = {task: next(iter(words.values())) for task in TASKS}
        tables = [table, words]
    else:
        plot = plot_timing
        tasks = TASKS if many else ["one"]
        retention = retention_of(tasks)
        timed = pl.concat([timings_of(task, 30) for task in tasks])
        tables = [timed, retention, labels_of(retention)]
    figure = figure_of(monkeypatch, plot, *tables, style=STYLE)
    assert figure.get_figwidth() <= PAGE + 1e-9
    assert not reads_beyond_the_page(figure)
    panels = [panel for panel in figure.axes if panel.get_visible()]
    assert not many or len(panels) >= 3 or name in ("retrieval", "orders")


def test_fitted_weights_of_many_tasks_are_on_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    figures: list[Figure] = []
    monkeypatch.setattr(
        "anchorflow.analyses.reweighting.plot.save", lambda figure, paths: figures.append(figure)
    )
    plot_reweighting(fitted(), STYLE, {})
    assert figures[0].get_figwidth() <= PAGE + 1e-9
    assert not reads_beyond_the_page(figures[0])


def test_of_twenty_labels_the_names_of_the_most_confused_ones_are_legible(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = confused(20, ["one"])
    figure = figure_of(monkeypatch, plot_confusion, table, labels_of(table, 20), style=STYLE)
    names = figure.axes[0].get_yticklabels()
    assert len(names) == 14
    assert min(name.get_fontsize() for name in names) > 5.5
    assert figure.axes[1].get_title() == "14 of 20 labels, most confused"
    assert not reads_beyond_the_page(figure)
