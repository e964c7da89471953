"""In-context learning compared with regressions, by number of demonstrations."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from anchorflow.present.style import describe, legend_below, save, small_multiples, tasks_in_order

# Okabe-Ito colors
_METHODS = {
    "in_context": ("in-context learning", "#000000", "o", "-"),
    "encoder": ("encoder, kernel regression", "#0072B2", "s", "--"),
    "encoder_logistic": ("encoder, logistic regression", "#56B4E9", "^", ":"),
    "head_chosen_here": ("best head, chosen on the same texts", "#E69F00", "v", ":"),
    "head_held_out": ("best head, held out", "#D55E00", "D", "-."),
}
_FURTHER = (("#009E73", "P"), ("#CC79A7", "X"), ("#F0E442", "*"))  # further encoders, in turn


def plot_regressors(
    summary: pl.DataFrame,
    style: Mapping[str, Any],
    confidence: float,
    paths: Mapping[str, str | Path],
) -> None:
    """Plot the table ``regressors_summary`` of one model, one column per task.

    Top: accuracy. Bottom: agreement with the model's predictions for the same demonstrations; for
    the model itself, with its predictions for all demonstrations.
    """
    tasks = tasks_in_order(summary)
    plotted = summary.filter(pl.col("weights").is_null() | (pl.col("weights") == "max"))
    title = "In-context learning compared with regressions on the same demonstrations,\n"
    title += describe(summary, confidence, "error bars")
    with small_multiples(style, 2, len(tasks), title, share=False) as (figure, axes):
        for row, (measure, name) in enumerate(
            (("accuracy", "accuracy"), ("agreement", "agreement with the model"))
        ):
            for column, task in enumerate(tasks):
                panel = axes[row][column]
                rows = plotted.filter(pl.col("task") == task, pl.col("measure") == measure)
                _plot_methods(panel, rows)
                if row == 0:
                    panel.set_title(task)
                else:
                    panel.set_xlabel("demonstrations")
                if column == 0:
                    panel.set_ylabel(name)
        handles, names = axes[0][0].get_legend_handles_labels()
        legend_below(figure, handles, names)
        save(figure, paths)


def _plot_methods(axes: Axes, rows: pl.DataFrame) -> None:
    methods = dict(_METHODS)
    others = rows["method"].unique(maintain_order=True)
    for number, method in enumerate(name for name in others if name not in _METHODS):
        color, marker = _FURTHER[number % len(_FURTHER)]
        name = f"{method.removeprefix('encoder_')}, kernel regression"
        methods[method] = (name, color, marker, "--")
    for number, (method, (name, color, marker, dashes)) in enumerate(methods.items()):
        line = rows.filter(pl.col("method") == method).sort("demonstrations")
        shift = 1 + 0.04 * (number - 2)  # side by side at equal numbers of demonstrations
        axes.errorbar(
            line["demonstrations"] * shift,
            line["mean"],
            yerr=[(line["mean"] - line["low"]).clip(0), (line["high"] - line["mean"]).clip(0)],
            color=color,
            marker=marker,
            markersize=3.5,
            linestyle=dashes,
            elinewidth=0.6,
            linewidth=1.0,
            label=name,
        )
    axes.set_xscale("log", base=2)
    ticks = rows["demonstrations"].unique().sort().to_list()
    # The label of a tick just below the last one would overlap with it.
    crowded = [tick < ticks[-1] < 1.4 * tick for tick in ticks]
    names = ["" if c else f"{tick:.3g}" for tick, c in zip(ticks, crowded, strict=True)]
    axes.set_xticks(ticks, names)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_ylim(0, 1.04)
