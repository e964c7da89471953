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
    save,
    small_multiples,
    spread,
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
}
_DONORS = {
    "other_texts": "other texts and the same label words",
    "permuted": "other label words",
    "drawn": "exchanged label words",
}
_PANELS = {
    ("keys_values", "first"): "keys and values of the\nfirst … layers that attend",
    ("keys_values", "last"): "keys and values of the\nlayers from … on",
    ("residual", "at"): "residual stream\nafter layer …",
}
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

    Bars over depth, and open marks for controls beside them. Of several donors, the first of
    ``_DONORS`` is shown.
    """
    averaged = summary.filter(pl.col("task") == AVERAGE, pl.col("mean").is_not_null())
    donor = next((name for name in _DONORS if name in set(averaged["donor"])), "")
    rows = averaged.filter(pl.col("donor") == donor)
    whole = rows.filter(pl.col("side") == "all")
    run = set(summary["what"])
    panel_names = {at: name for at, name in _PANELS.items() if at[0] in run} or _PANELS
    title = f"Vectors transplanted from a prompt with {_DONORS.get(donor, 'other label words')},\n"
    title += "averaged over tasks, "
    title += (
        describe(summary, confidence, "error bars")
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
                here = pl.concat(
                    [
                        rows.filter(pl.col("what") == what, pl.col("side") == side, of_measure),
                        whole.filter(pl.col("what") == what, of_measure),
                    ]
                )
                # How many of the first layers, the first of the last ones, or the only one.
                at = pl.col("layers" if side == "first" else "layer")
                _plot_places(panel, here.with_columns(at=at).sort("at"), style["colors"])
                panel.set_xlabel(where)
                panel.axhline(0, color="0.6", linewidth=0.6, zorder=0)
                panel.axhline(1, color="0.6", linewidth=0.6, zorder=0)
                if measure == "follows":
                    panel.set_ylim(-0.04, 1.08)
            panels[0].set_ylabel(name)
        handle_of = legend_entries(axes[0][:1])
        if handle_of:
            legend_below(fig, handle_of.values(), handle_of)
        save(fig, paths)


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
