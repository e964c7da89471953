"""How far vectors transplanted from another prompt move the answers, over depth."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from anchorflow.present.style import (
    DASHES,
    MARKERS,
    describe,
    legend_below,
    save,
    small_multiples,
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
}
_PANELS = {
    ("keys_values", "first"): "keys and values of the\nlayers up to …",
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

    The donor is ``permuted`` if both kinds were run.
    """
    averaged = summary.filter(pl.col("task") == AVERAGE, pl.col("mean").is_not_null())
    donors = averaged["donor"].unique().sort(descending=True).to_list()  # permuted, drawn
    rows = averaged.filter(pl.col("donor") == (donors[0] if donors else ""))
    whole = rows.filter(pl.col("side") == "all")
    run = set(summary["what"])
    panel_names = {at: name for at, name in _PANELS.items() if at[0] in run} or _PANELS
    title = "Vectors transplanted from a prompt with other label words, averaged over tasks,\n"
    title += (
        describe(summary, confidence)
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
                # The last of the first layers, the first of the last ones, or the only one.
                at = pl.col("layer") + (pl.col("layers") - 1 if side == "first" else 0)
                _plot_places(panel, here.with_columns(at=at).sort("at"), style["colors"])
                panel.set_xlabel(where)
                panel.axhline(0, color="0.6", linewidth=0.6, zorder=0)
                panel.axhline(1, color="0.6", linewidth=0.6, zorder=0)
                panel.xaxis.set_major_locator(MaxNLocator(integer=True))
                if measure == "follows":
                    panel.set_ylim(-0.04, 1.08)
            panels[0].set_ylabel(name)
        handles, names = axes[0][0].get_legend_handles_labels()
        if handles:
            legend_below(fig, handles, names)
        save(fig, paths)


def _plot_places(axes: Axes, rows: pl.DataFrame, colors: list[str]) -> None:
    present = set(rows["places"])
    for order, (places, name) in enumerate(_PLACES.items()):
        if places in present:
            line = rows.filter(pl.col("places") == places)
            axes.fill_between(
                line["at"], line["low"], line["high"], color=colors[order], alpha=0.18, linewidth=0
            )
            axes.plot(
                line["at"],
                line["mean"],
                color=colors[order],
                linestyle=DASHES[order],
                marker=MARKERS[order],
                label=name,
            )
    for order, (places, name) in enumerate(_OTHERS.items()):
        if places in present:
            line = rows.filter(pl.col("places") == places)
            axes.plot(line["at"], line["mean"], **thin(order), label=name)
