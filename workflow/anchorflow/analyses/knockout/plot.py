"""Change of the loss when edges of attention are cut, by class of edges and by layer."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.axes import Axes

from anchorflow.present.style import (
    describe,
    legend_below,
    name_y,
    plot_bars,
    plot_line,
    save,
    small_multiples,
    thin,
    with_controls,
)
from anchorflow.statistics.by_task import AVERAGE

NAMES = {
    "label_to_target": "label words → target",
    "text_to_target": "texts → target",
    "template_to_target": "templates → target",
    "text_to_label": "text → its label word",
    "template_to_label": "template → its label word",
    "label_to_label": "label words → later label words",
    "before_to_label": "all → label words (S$_{wp}$)",
    "demonstrations_to_text": "demonstrations → later texts",
    "demonstrations_to_query": "demonstrations → query",
    "first_to_all": "first token → all",
    "others": "all other pairs (S$_{ww}$)",
}
_THIRDS = ("first", "middle", "last")
_CUT, _RANDOM = "these edges cut", "equally many random edges in the same rows cut"


def plot_knockout(
    summary: pl.DataFrame,
    style: Mapping[str, Any],
    confidence: float,
    paths: Mapping[str, str | Path],
) -> None:
    """Plot the table ``knockout_summary`` of one model, averaged over tasks.

    One panel per class of edges. Lines run over single layers; if these were not cut one at a time,
    bars stand for thirds of the layers, or for all layers.
    """
    averaged = summary.filter(
        pl.col("task") == AVERAGE, pl.col("measure") == "loss_size", pl.col("mean").is_not_null()
    )
    bands = set(averaged["band"])
    plotted = ("single",) if "single" in bands else _THIRDS if bands & {*_THIRDS} else ("all",)
    averaged = averaged.filter(pl.col("band").is_in(plotted))
    if not with_controls(style):
        averaged = averaged.filter(control=False)
    classes = [name for name in NAMES if name in set(summary["edges"])]
    title = "Edges of attention cut, averaged over tasks,\n"
    title += describe(summary, confidence, "bands" if plotted == ("single",) else "error bars")
    with small_multiples(style, 1, len(classes), title) as (figure, (panels,)):
        for panel, name in zip(panels, classes, strict=True):
            of_class = averaged.filter(edges=name)
            cut, drawn = (of_class.filter(control=control) for control in (False, True))
            if plotted == ("single",):
                _plot_lines(panel, cut, drawn, style["colors"][0])
            else:
                _plot_bars(panel, cut, drawn, style["colors"][0], plotted)
            panel.axhline(0, color="0.6", linewidth=0.6, zorder=0)
            panel.set_title(NAMES[name])
            panel.set_xlabel("layer" if plotted == ("single",) else "layers")
        name_y(panels, "absolute change\nof the loss (nats)")
        legend_below(figure, *panels[0].get_legend_handles_labels())
        save(figure, paths)


def _plot_lines(axes: Axes, cut: pl.DataFrame, drawn: pl.DataFrame, color: str) -> None:
    plot_line(axes, cut, color, 0, _CUT)
    if drawn.is_empty():
        return
    rows = drawn.sort("layer")
    axes.fill_between(
        rows["layer"], rows["low"], rows["high"], color="0.4", alpha=0.15, linewidth=0
    )
    axes.plot(rows["layer"], rows["mean"], **thin(1), label=_RANDOM)


def _plot_bars(
    axes: Axes, cut: pl.DataFrame, drawn: pl.DataFrame, color: str, bands: tuple[str, ...]
) -> None:
    for order, (rows, look, name) in enumerate(((cut, color, _CUT), (drawn, "0.6", _RANDOM))):
        if rows.is_empty():
            continue
        places = [bands.index(band) + 0.4 * order - 0.2 for band in rows["band"]]
        plot_bars(axes, rows, places, order, look, name)
    axes.set_xticks(range(len(bands)), bands)
