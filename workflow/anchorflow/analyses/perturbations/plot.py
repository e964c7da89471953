"""Accuracy for perturbed test texts, and its paired difference from untouched ones."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.axes import Axes

from anchorflow.analyses.perturbations.summarize import PERTURBATIONS, PUBLISHED, UNTOUCHED
from anchorflow.present.style import (
    MARKERS,
    chance_levels,
    describe,
    legend_below,
    legend_entries,
    plot_chance,
    save,
    small_multiples,
    spread,
    tasks_in_order,
)

_PANELS = {"accuracy": "accuracy", "accuracy_change": "change of accuracy"}
_REWRITTEN = "[K], texts rewritten by GPT-3.5"


def plot_perturbations(
    summary: pl.DataFrame,
    labels: Mapping[str, Sequence[str]],
    style: Mapping[str, Any],
    confidence: float,
    paths: Mapping[str, str | Path],
) -> None:
    """Plot the table ``perturbations_summary`` of one model, one column per task and average.

    Top: accuracy by perturbation. Bottom: paired difference from untouched texts. Open marks in the
    last column are the published values, for texts rewritten by GPT-3.5.
    """
    tasks = tasks_in_order(summary)
    names = [name for name in PERTURBATIONS if name in summary["perturbation"]]
    title = "Perturbed test texts,\n" if len(tasks) == 1 else "Perturbed test texts, "
    title += describe(summary, confidence, "error bars")
    grid = small_multiples(style, len(_PANELS), len(tasks), title, share=False, share_y=True)
    with grid as (figure, panels):
        for line, (measure, name) in zip(panels, _PANELS.items(), strict=True):
            lines = [kind for kind in names if measure == "accuracy" or kind != UNTOUCHED]
            for axes, task in zip(line, tasks, strict=True):
                rows = summary.filter(
                    pl.col("measure") == measure,
                    pl.col("task") == task,
                    pl.col("mean").is_not_null(),
                )
                _plot_points(axes, rows, lines, style["colors"][0])
                if task == tasks[-1]:
                    _plot_published(axes, lines, measure, style["colors"][1])
                axes.set_yticks(range(len(lines)), [kind.replace("_", " ") for kind in lines])
                axes.set_ylim(len(lines) - 0.5, -0.5)
                axes.set_xlabel(name)
                axes.grid(axis="x", linewidth=0.3, color="0.85")
                if measure == "accuracy":
                    axes.set_title(task)
                    axes.set_xlim(-0.02, 1.04)
                    plot_chance(axes, chance_levels(labels)[task], vertical=True)
                else:
                    axes.axvline(0, color="0.6", linewidth=0.6, zorder=0)
            ends = [axes.get_xlim() for axes in line]
            for axes in line:
                axes.set_xlim(min(low for low, _ in ends), max(high for _, high in ends))
        handle_of = legend_entries(panels[0])
        legend_below(figure, handle_of.values(), handle_of)
        save(figure, paths)


def _plot_points(axes: Axes, rows: pl.DataFrame, names: list[str], color: str) -> None:
    """Plot the means with intervals; a dashed line marks the untouched texts' accuracy."""
    axes.errorbar(
        rows["mean"],
        [names.index(name) - 0.1 for name in rows["perturbation"]],
        xerr=spread(rows),
        color=color,
        marker=MARKERS[0],
        markersize=4,
        linestyle="none",
        elinewidth=0.8,
        label="this model and run",
    )
    for mean in rows.filter(pl.col("perturbation") == UNTOUCHED)["mean"]:
        axes.axvline(mean, color=color, linewidth=0.6, linestyle="--", zorder=0)


def _plot_published(axes: Axes, names: list[str], measure: str, color: str) -> None:
    """Plot the published accuracy, or its difference from that of untouched texts."""
    minus = 0.0 if measure == "accuracy" else PUBLISHED[UNTOUCHED]
    known = [name for name in names if name in PUBLISHED]
    axes.plot(
        [PUBLISHED[name] - minus for name in known],
        [names.index(name) + 0.15 for name in known],
        color=color,
        marker=MARKERS[1],
        markersize=4,
        markerfacecolor="none",
        linestyle="none",
        label=_REWRITTEN,
    )
