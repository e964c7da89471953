"""Change of the answer when edges of attention are cut, by class of edges and by layer."""

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
_HEAVY = "random edges with as much attention cut"


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
        pl.col("task") == AVERAGE,
        pl.col("measure") == "log_odds_change",
        pl.col("mean").is_not_null(),
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
            parts = {_CUT: of_class.filter(control=False), _RANDOM: of_class.filter(control=True)}
            if name == "label_to_target" and with_controls(style):
                parts[_HEAVY] = averaged.filter(edges="equal_to_target")
            known = {name: rows for name, rows in parts.items() if not rows.is_empty()}
            if plotted == ("single",):
                _plot_lines(panel, known, style["colors"][0])
            else:
                _plot_bars(panel, known, style["colors"][0], plotted)
            panel.axhline(0, color="0.6", linewidth=0.6, zorder=0)
            panel.set_title(NAMES[name])
            panel.set_xlabel("layer" if plotted == ("single",) else "layers")
        name_y(panels, "change of the true\nlabel's log odds (nats)")
        legend_below(figure, *panels[0].get_legend_handles_labels())
        save(figure, paths)


def _plot_lines(axes: Axes, parts: Mapping[str, pl.DataFrame], color: str) -> None:
    for order, (name, rows) in enumerate(parts.items()):
        if name == _CUT:
            plot_line(axes, rows, color, 0, name)
            continue
        by_layer = rows.sort("layer")
        axes.fill_between(
            by_layer["layer"],
            by_layer["low"],
            by_layer["high"],
            color="0.4",
            alpha=0.15,
            linewidth=0,
        )
        axes.plot(by_layer["layer"], by_layer["mean"], **thin(order), label=name)


def _plot_bars(
    axes: Axes, parts: Mapping[str, pl.DataFrame], color: str, bands: tuple[str, ...]
) -> None:
    looks = {_CUT: color, _RANDOM: "0.6", _HEAVY: "0.8"}
    for order, (name, rows) in enumerate(parts.items()):
        places = [bands.index(band) + 0.27 * (order - 1) for band in rows["band"]]
        plot_bars(axes, rows, places, order, looks[name], name)
    axes.set_xticks(range(len(bands)), bands)
