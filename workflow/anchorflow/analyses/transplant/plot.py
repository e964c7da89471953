"""How far vectors transplanted from another prompt move the answers, over depth."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.axes import Axes

from anchorflow.present.style import (
    BAR,
    MARKERS,
    describe,
    legend_below,
    legend_entries,
    plot_bars,
    plot_line,
    save,
    small_multiples,
    spread,
    thin,
)
from anchorflow.statistics.by_task import AVERAGE

_PLACES = {
    "label": "label words",
    "demonstrations": "all tokens (maximum)",
    "rest": "all but label words",
}
_OTHERS = {
    "one_label": "one label word",
    "text": "equally many text tokens",
    "template": "equally many template tokens",
    "target": "the query's last token",
}
_DONORS = {
    "other_texts": "other texts and the same label words",
    "other_task": "another task's texts and the same label words",
    "permuted": "other label words",
    "drawn": "exchanged label words",
}
_VECTORS = {"keys_values": "keys and values", "keys": "keys", "values": "values"}
_RESIDUAL = {("residual", "at"): "residual stream\nafter layer …"}
_PANELS = {
    (what, side): f"{name} of the\n{layers}"
    for what, name in _VECTORS.items()
    for side, layers in (("first", "first … layers that attend"), ("last", "layers from … on"))
} | _RESIDUAL
_WINDOWS = {
    (what, "window"): f"{name} of {{}} layers,\nthe first of them …"
    for what, name in _VECTORS.items()
} | _RESIDUAL
_MEASURES = {
    "moved": "share of the way to\nthe donor's probabilities",
    "follows": "predictions that become\nthe donor's",
}


def plot_transplant(
    summary: pl.DataFrame,
    style: Mapping[str, Any],
    confidence: float,
    paths: Mapping[str, str | Path],
) -> None:
    """Plot the table ``transplant_summary`` of one model for one donor, averaged over tasks.

    Bars over depth, and open marks for controls beside them; with windows of layers, lines over
    depth. Of several donors, the first of ``_DONORS`` is shown.
    """
    averaged = summary.filter(pl.col("task") == AVERAGE, pl.col("mean").is_not_null())
    donor = next((name for name in _DONORS if name in set(averaged["donor"])), "")
    rows = averaged.filter(pl.col("donor") == donor)
    whole = rows.filter(pl.col("side") == "all")
    run, windows = set(summary["what"]), summary.filter(side="window")
    panel_names = {
        (what, side): name.format(*windows["layers"].unique())
        for (what, side), name in (_PANELS if windows.is_empty() else _WINDOWS).items()
        if what in (run or ("keys_values", "residual"))
    }
    title = f"Vectors transplanted from a prompt with {_DONORS.get(donor, 'other label words')},\n"
    title += "averaged over tasks, "
    title += (
        describe(summary, confidence, "error bars" if windows.is_empty() else "bands")
        if len(summary)
        else "none of which has two label words of the same length"
    )
    with small_multiples(style, len(_MEASURES), len(panel_names), title, share=False) as (
        fig,
        axes,
    ):
        for (measure, name), panels in zip(_MEASURES.items(), axes, strict=True):
            of_measure = pl.col("measure") == measure
            for panel, ((what, side), where) in zip(panels, panel_names.items(), strict=True):
                here = rows.filter(of_measure, what=what, side=side)
                if len(windows):
                    _plot_lines(panel, here, style["colors"])
                else:
                    here = pl.concat([here, whole.filter(of_measure, what=what)])
                    # How many of the first layers, the first of the last ones, or the only one.
                    at = pl.col("layers" if side == "first" else "layer")
                    _plot_places(panel, here.with_columns(at=at).sort("at"), style["colors"])
                panel.set_xlabel(where)
                panel.axhline(0, color="0.6", linewidth=0.6, zorder=0)
                panel.axhline(1, color="0.6", linewidth=0.6, zorder=0)
                if measure == "follows":
                    panel.set_ylim(-0.04, 1.08)
            panels[0].set_ylabel(name)
        handle_of = legend_entries(axes[0])
        if handle_of:
            legend_below(fig, handle_of.values(), handle_of)
        save(fig, paths)


def _plot_lines(axes: Axes, rows: pl.DataFrame, colors: list[str]) -> None:
    """Lines over depth with bands, thin ones for as many other tokens."""
    present, alone = set(rows["places"]), ("one_label", "target")
    named = {**_PLACES, **{places: _OTHERS[places] for places in alone}}
    for order, (places, name) in enumerate(named.items()):
        if places in present:
            color = colors[order % len(colors)]
            plot_line(axes, rows.filter(places=places), color, order, name)
    for order, places in enumerate(("text", "template")):
        if places in present:
            means = rows.filter(places=places).sort("layer")
            axes.plot(means["layer"], means["mean"], **thin(order), label=_OTHERS[places])


def _plot_places(axes: Axes, rows: pl.DataFrame, colors: list[str]) -> None:
    depths = rows["at"].unique().sort().to_list()
    present = set(rows["places"])
    bars = [places for places in _PLACES if places in present]
    width = BAR * 2 / max(2, len(bars))
    for order, places in enumerate(bars):
        of_places = rows.filter(places=places)
        shift = width * (order - (len(bars) - 1) / 2)
        at = [depths.index(depth) + shift for depth in of_places["at"]]
        plot_bars(axes, of_places, at, order, colors[order], _PLACES[places], width)
    for order, (places, name) in enumerate(_OTHERS.items()):
        means = rows.filter(places=places)
        if not means.is_empty():
            at = [depths.index(depth) + 0.3 + 0.1 * (order - 1) for depth in means["at"]]
            look: Any = {"color": "black", "markerfacecolor": "white", "linestyle": "none"}
            look |= {"elinewidth": 0.6, "capsize": 1.5, "marker": MARKERS[order], "markersize": 4}
            axes.errorbar(at, means["mean"], yerr=spread(means), label=name, **look)
    axes.set_xticks(range(len(depths)), [str(depth) for depth in depths])
