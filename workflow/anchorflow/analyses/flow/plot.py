"""Fig. 3 of [A] for any model: the three information flows by layer, and their controls."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from anchorflow.analyses.flow.summarize import FLOWS, MATCHED, RATIOS
from anchorflow.present.style import (
    describe,
    legend_below,
    plot_line,
    save,
    small_multiples,
    tasks_in_order,
    thin,
)

_LABELS = {
    "s_wp": "$S_{wp}$: to label words",
    "s_pq": "$S_{pq}$: label words → target",
    "s_ww": "$S_{ww}$: all other pairs",
}
_MATCHED = {
    "text": "text token in place of label word",
    "before": "token before label word",
    "after": "token after label word",
}
_RATIOS = {
    "target_share_text": "to the target: label words vs. text",
    "target_share_template": "to the target: label words vs. template",
    "into_share": "received: label words vs. text",
}
# From the palette of the default colors, but none of them: ratios must not look like flows.
_RATIO_COLORS = ("#009E73", "#CC79A7", "#E69F00")
_AXES = {
    "proportion": "share of the three flows",
    "absolute": "mean significance (nats)",
    "ratios": "share of label words\ncompared with others",
}


def plot_flow(
    summary: pl.DataFrame,
    style: Mapping[str, Any],
    confidence: float,
    paths: Mapping[str, str | Path],
) -> None:
    """Plot ``FLOW_SUMMARY`` for one model, one column per task.

    Top: shares of the three flows, with matched positions as thin lines. Middle: the same in nats.
    Bottom: label words compared with other tokens, 1/2 if label words are like any other token.
    """
    tasks = tasks_in_order(summary)
    title = "Information flow, " + describe(summary, confidence)
    with small_multiples(style, len(_AXES), len(tasks), title) as (figure, axes):
        for column, task in enumerate(tasks):
            of_task = summary.filter(pl.col("task") == task)
            shares, absolute, ratios = (row[column] for row in axes)
            _plot_flows(shares, of_task, "proportion", style["colors"])
            shares.set_ylim(0, 1)
            shares.set_title(task)
            _plot_logarithms(absolute, of_task, style["colors"])
            _plot_ratios(ratios, of_task)
            ratios.set_xlabel("layer")
        for row, name in zip(axes, _AXES.values(), strict=True):
            row[0].set_ylabel(name)
        flows, names = axes[0][0].get_legend_handles_labels()
        controls = [Line2D([], [], **thin(order)) for order in range(len(_MATCHED))]
        of_ratios, ratio_names = axes[2][0].get_legend_handles_labels()
        legend_below(
            figure,
            [*flows, *controls, *of_ratios],
            [*names, *_MATCHED.values(), *ratio_names],
            most=3,
        )
        save(figure, paths)


def _plot_flows(axes: Axes, rows: pl.DataFrame, scale: str, colors: list[str]) -> None:
    rows = rows.filter(pl.col("scale") == scale)
    for order, (flow, color) in enumerate(zip(FLOWS, colors, strict=True)):
        for dashes, matched in enumerate(MATCHED):
            line = rows.filter(pl.col("flow") == f"{flow}_{matched}").sort("layer")
            axes.plot(line["layer"], line["mean"], **{**thin(dashes), "color": color}, zorder=1)
        plot_line(axes, rows.filter(pl.col("flow") == flow), color, order, _LABELS[flow])


def _plot_logarithms(axes: Axes, rows: pl.DataFrame, colors: list[str]) -> None:
    """Absolute values above 0; bands that reach 0 end at the axis.

    S_wp is 0 in the last layer, which a logarithmic axis cannot show.
    """
    positive = rows.filter(pl.col("scale") == "absolute", pl.col("mean") > 0)
    if positive.is_empty():
        axes.text(0.5, 0.5, "all are 0", transform=axes.transAxes, ha="center")
        return
    bottom = min(positive["mean"]) / 3
    clipped = positive.with_columns(pl.col("low").clip(bottom))
    _plot_flows(axes, clipped, "absolute", colors)
    axes.set_yscale("log")
    axes.set_ylim(bottom=bottom)


def _plot_ratios(axes: Axes, rows: pl.DataFrame) -> None:
    for order, (ratio, color) in enumerate(zip(RATIOS, _RATIO_COLORS, strict=True)):
        plot_line(axes, rows.filter(pl.col("flow") == ratio), color, order, _RATIOS[ratio])
    axes.axhline(0.5, color="0.6", linewidth=0.6, zorder=0)
    axes.set_ylim(0, 1)
