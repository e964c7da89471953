"""Fig. 3 of [A] for any model: the three information flows by layer."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from anchorflow.plot.style import describe, plot_line, save, small_multiples, tasks_in_order
from anchorflow.summarize.flow import FLOWS

_LABELS = {
    "s_wp": "$S_{wp}$: text → label words",
    "s_pq": "$S_{pq}$: label words → target",
    "s_ww": "$S_{ww}$: all other pairs",
}
_AXES = {"proportion": "share of the three flows", "absolute": "mean significance (nats)"}


def plot_flow(
    flow: pl.DataFrame, style: Mapping[str, Any], confidence: float, paths: Mapping[str, str | Path]
) -> None:
    """Plot the table ``flow`` of one model: shares above absolute values, one column per task."""
    tasks = tasks_in_order(flow)
    title = "Information flow, " + describe(flow, confidence)
    with small_multiples(style, len(_AXES), len(tasks), title) as (figure, axes):
        for row, (scale, name) in enumerate(_AXES.items()):
            for column, task in enumerate(tasks):
                panel = axes[row][column]
                rows = flow.filter(pl.col("task") == task, pl.col("scale") == scale)
                if scale == "absolute":  # S_wp is 0 in the last layer, so it has no logarithm
                    rows = rows.filter(pl.col("low") > 0)
                for order, (key, color) in enumerate(zip(FLOWS, style["colors"], strict=True)):
                    plot_line(panel, rows.filter(pl.col("flow") == key), color, order, _LABELS[key])
                if scale == "absolute":
                    panel.set_yscale("log")
                    panel.set_xlabel("layer")
                else:
                    panel.set_ylim(0, 1)
                    panel.set_title(task)
                if column == 0:
                    panel.set_ylabel(name)
        handles, labels = axes[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(FLOWS))
        save(figure, paths)
