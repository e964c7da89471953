"""Change of the loss when edges of attention are cut, by class of edges and by layer."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.axes import Axes

from anchorflow.present.style import describe, legend_below, plot_line, save, small_multiples, thin
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
_COLUMNS = 4  # panels that fit the width of a page


def plot_knockout(
    summary: pl.DataFrame,
    style: Mapping[str, Any],
    confidence: float,
    paths: Mapping[str, str | Path],
) -> None:
    """Plot the table ``knockout_summary`` of one model, averaged over tasks.

    One panel per class of edges. Lines run over single layers; if these were not cut one at a time,
    over thirds of the layers, or all layers.
    """
    averaged = summary.filter(
        pl.col("task") == AVERAGE, pl.col("measure") == "loss_size", pl.col("mean").is_not_null()
    )
    bands = set(averaged["band"])
    plotted = ("single",) if "single" in bands else _THIRDS if bands & {*_THIRDS} else ("all",)
    averaged = averaged.filter(pl.col("band").is_in(plotted))
    classes = [name for name in NAMES if name in set(summary["edges"])]
    columns = min(_COLUMNS, len(classes))
    title = "Edges of attention cut, averaged over tasks,\n" + describe(summary, confidence)
    rows = -(-len(classes) // columns)
    with small_multiples(style, rows, columns, title) as (figure, axes):
        panels = [panel for row in axes for panel in row]
        for panel, name in zip(panels, classes, strict=False):
            of_class = averaged.filter(pl.col("edges") == name)
            _plot_class(panel, of_class, style["colors"][0], plotted)
            panel.set_title(NAMES[name])
        for panel in panels[len(classes) :]:
            panel.set_visible(False)
        for panel in panels[max(0, len(classes) - columns) : len(classes)]:
            panel.set_xlabel("layer" if plotted == ("single",) else "layers")
            panel.tick_params(labelbottom=True)
        for row in axes:
            row[0].set_ylabel("absolute change\nof the loss (nats)")
        legend_below(figure, *panels[0].get_legend_handles_labels())
        save(figure, paths)


def _plot_class(axes: Axes, rows: pl.DataFrame, color: str, bands: tuple[str, ...]) -> None:
    if bands != ("single",):
        order = {band: place for place, band in enumerate(bands)}
        rows = rows.with_columns(layer=pl.col("band").replace_strict(order, return_dtype=pl.Int32))
    drawn = rows.filter(pl.col("control")).sort("layer")
    axes.axhline(0, color="0.6", linewidth=0.6, zorder=0)
    plot_line(axes, rows.filter(~pl.col("control")), color, 0, "these edges cut")
    axes.fill_between(
        drawn["layer"], drawn["low"], drawn["high"], color="0.4", alpha=0.15, linewidth=0
    )
    axes.plot(
        drawn["layer"],
        drawn["mean"],
        **thin(1),
        label="equally many random edges in the same rows cut",
    )
    if bands != ("single",):
        axes.set_xticks(range(len(bands)), bands)
