"""Accuracy with similar compared with random demonstrations, and how many share the label."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.axes import Axes

from anchorflow.plot.style import (
    MARKERS,
    describe,
    legend_below,
    save,
    small_multiples,
    tasks_in_order,
)
from anchorflow.summarize.neighbors import CHOICES

_PANELS = {
    "accuracy": "accuracy",
    "accuracy_gain": "accuracy minus that with\nrandom demonstrations, paired",
    "same_label": "share of demonstrations\nwith the test text's label",
}
_NAMES = {"random": "random", "nearest": "nearest", "nearest_per_label": "nearest of each label"}


def plot_neighbors(
    neighbors: pl.DataFrame,
    style: Mapping[str, Any],
    confidence: float,
    paths: Mapping[str, str | Path],
) -> None:
    """Plot the table ``neighbors`` of one model, one line per task and one for the average.

    Left: accuracy by choice of demonstrations. Middle: paired difference from random ones. Right:
    share of demonstrations with the test text's label.
    """
    tasks = tasks_in_order(neighbors)
    title = "Demonstrations by similarity to the test text,\n"
    title += describe(neighbors, confidence, "error bars")
    with small_multiples(style, 1, len(_PANELS), title, share=False) as (figure, (panels,)):
        for axes, (measure, name) in zip(panels, _PANELS.items(), strict=True):
            rows = neighbors.filter(pl.col("measure") == measure, pl.col("task").is_in(tasks))
            for order, choice in enumerate(CHOICES):
                points = rows.filter(pl.col("choice") == choice, pl.col("mean").is_not_null())
                if not points.is_empty():
                    _plot_points(axes, points, tasks, style["colors"][order], order)
            axes.set_xlabel(name)
            axes.set_yticks(range(len(tasks)), tasks if axes is panels[0] else [""] * len(tasks))
            axes.set_ylim(len(tasks) - 0.5, -0.5)
            axes.grid(axis="x", linewidth=0.3, color="0.85")
            if measure == "accuracy_gain":
                axes.axvline(0, color="0.6", linewidth=0.6, zorder=0)
            else:
                axes.set_xlim(-0.02, 1.04)
        handles, labels = panels[0].get_legend_handles_labels()
        legend_below(figure, handles, labels)
        save(figure, paths)


def _plot_points(
    axes: Axes, points: pl.DataFrame, tasks: list[str], color: str, order: int
) -> None:
    """Plot one choice's means with intervals, slightly below those of the previous choice."""
    axes.errorbar(
        points["mean"],
        [tasks.index(task) + 0.2 * (order - 1) for task in points["task"]],
        xerr=[
            (points["mean"] - points["low"]).clip(0),
            (points["high"] - points["mean"]).clip(0),
        ],
        color=color,
        marker=MARKERS[order],
        markersize=4,
        linestyle="none",
        elinewidth=0.8,
        label=_NAMES[points["choice"][0]],
    )
