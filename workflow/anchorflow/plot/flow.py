"""Fig. 3 of [A] for any model: the three information flows by layer, and their controls."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from anchorflow.plot.style import (
    describe,
    legend_below,
    plot_line,
    save,
    small_multiples,
    tasks_in_order,
    thin,
)
from anchorflow.summarize.flow import FLOWS, MATCHED, RATIOS

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
    "target_share_text": "to target: label words vs. text",
    "target_share_template": "to target: label words vs. template",
    "into_share": "received: label words vs. text",
}
# Of the palette of the default colors, so that ratios are not taken for flows.
_RATIO_COLORS = ("#009E73", "#CC79A7", "#E69F00")
_AXES = {
    "proportion": "share of the three flows",
    "absolute": "mean significance (nats)",
    "ratios": "label words' share of two",
}


def plot_flow(
    flow: pl.DataFrame, style: Mapping[str, Any], confidence: float, paths: Mapping[str, str | Path]
) -> None:
    """Plot the table ``flow`` of one model, one column per task.

    Shares are above absolute values, with matched positions as thin lines, and below them label
    words against other tokens, where 1/2 is what label words like any other token have.
    """
    tasks = tasks_in_order(flow)
    title = "Information flow, " + describe(flow, confidence)
    with small_multiples(style, len(_AXES), len(tasks), title) as (figure, axes):
        for column, task in enumerate(tasks):
            of_task = flow.filter(pl.col("task") == task)
            shares, absolute, ratios = (row[column] for row in axes)
            _plot_flows(shares, of_task, "proportion", style["colors"])
            shares.set_ylim(0, 1)
            shares.set_title(task)
            # S_wp is 0 in the last layer, so it has no logarithm.
            positive = of_task.filter(pl.col("low") > 0)
            _plot_flows(absolute, positive, "absolute", style["colors"])
            absolute.set_yscale("log")
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


def _plot_ratios(axes: Axes, rows: pl.DataFrame) -> None:
    for order, (ratio, color) in enumerate(zip(RATIOS, _RATIO_COLORS, strict=True)):
        plot_line(axes, rows.filter(pl.col("flow") == ratio), color, order, _RATIOS[ratio])
    axes.axhline(0.5, color="0.6", linewidth=0.6, zorder=0)
    axes.set_ylim(0, 1)
