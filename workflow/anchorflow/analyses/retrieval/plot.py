"""Accuracy with chosen and random demonstrations, and the share with the test text's label."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from anchorflow.analyses.retrieval.summarize import CHOICES
from anchorflow.present.style import (
    MARKERS,
    chance_levels,
    describe,
    legend_below,
    legend_entries,
    save,
    small_multiples,
    spread,
    tasks_in_order,
)

_PANELS = {
    "accuracy": "accuracy",
    "accuracy_gain": "accuracy minus that with\nrandom demonstrations, paired",
    "same_label": "share of demonstrations\nwith the test text's label",
}
_NAMES = {
    "random": "random",
    "nearest": "nearest",
    "nearest_per_label": "nearest of each label",
    "representative": "representative",
    "outlying": "outlying",
    "other_task": "of another task",
    "random_labels": "random, labels in random order",
}
_MARK: Mapping[str, Any] = {"markersize": 4, "linestyle": "none"}
_MAJORITY = "majority of their labels, without the model"


def plot_retrieval(
    summary: pl.DataFrame,
    labels: Mapping[str, Sequence[str]],
    style: Mapping[str, Any],
    confidence: float,
    paths: Mapping[str, str | Path],
) -> None:
    """Plot the table ``retrieval_summary`` of one model, one line per task and average.

    Left: accuracy by choice of demonstrations, with open marks for the majority of their labels.
    Middle: paired difference from random ones. Right: share of demonstrations with the test text's
    label.
    """
    tasks = tasks_in_order(summary)
    choices = [choice for choice in CHOICES if choice in summary["choice"]]
    title = "Chosen demonstrations compared with random ones,\n"
    title += describe(summary, confidence, "error bars")
    with small_multiples(style, 1, len(_PANELS), title, share=False) as (figure, (panels,)):
        lines = len(tasks) * (len(choices) + 1)
        figure.set_figheight(max(figure.get_figheight(), 0.11 * lines + 1.4))
        for axes, (measure, name) in zip(panels, _PANELS.items(), strict=True):
            rows = summary.filter(pl.col("measure") == measure, pl.col("task").is_in(tasks))
            majority = summary.filter(pl.col("measure") == "majority")
            for place, choice in enumerate(choices):
                points = rows.filter(pl.col("choice") == choice, pl.col("mean").is_not_null())
                heights = _heights(points, tasks, place, len(choices))
                look = _look(choice, style["colors"])
                if not points.is_empty():
                    _plot_points(axes, points, heights, look)
                if measure == "accuracy":
                    voted = points.join(majority, on=["task", "choice"], maintain_order="left")
                    axes.plot(voted["mean_right"], heights, markerfacecolor="none", **look)
            axes.set_xlabel(name)
            axes.set_yticks(range(len(tasks)), tasks if axes is panels[0] else [""] * len(tasks))
            axes.set_ylim(len(tasks) - 0.5, -0.5)
            axes.grid(axis="x", linewidth=0.3, color="0.85")
            if measure == "accuracy_gain":
                axes.axvline(0, color="0.6", linewidth=0.6, zorder=0)
            else:
                axes.set_xlim(-0.02, 1.04)
        ends = [tasks.index(task) - 0.5 for task in tasks], [tasks.index(t) + 0.5 for t in tasks]
        levels = [chance_levels(labels)[task] for task in tasks]
        panels[0].vlines(levels, *ends, color="0.4", linestyle=":", linewidth=0.9, label="chance")
        handle_of = legend_entries(panels)
        open_mark = Line2D([], [], color="0.4", marker=MARKERS[0], **_MARK, markerfacecolor="none")
        handle_of[_MAJORITY] = open_mark
        legend_below(figure, handle_of.values(), handle_of)
        save(figure, paths)


def _heights(points: pl.DataFrame, tasks: list[str], place: int, choices: int) -> list[float]:
    """Heights of one choice's points: choices are stacked around the line of their task."""
    step = min(0.2, 0.8 / choices)
    return [tasks.index(task) + step * (place - (choices - 1) / 2) for task in points["task"]]


def _look(choice: str, colors: Sequence[str]) -> dict[str, Any]:
    """Color and marker of a choice; no two choices share both."""
    order = CHOICES.index(choice)
    return {"color": colors[order % len(colors)], "marker": MARKERS[order % len(MARKERS)], **_MARK}


def _plot_points(
    axes: Axes, points: pl.DataFrame, heights: Sequence[float], look: Mapping[str, Any]
) -> None:
    axes.errorbar(
        points["mean"],
        heights,
        xerr=spread(points),
        elinewidth=0.8,
        label=_NAMES[points["choice"][0]],
        **look,
    )
