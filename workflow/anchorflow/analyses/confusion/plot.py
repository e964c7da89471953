"""Fig. 6 of [A] for any model: confusion of labels, measured and predicted from their keys."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import polars as pl
from matplotlib.axes import Axes

from anchorflow.arrays import Array
from anchorflow.depth import last_third
from anchorflow.present.style import as_shown, describe, plot_line, save, small_multiples
from anchorflow.statistics.by_task import AVERAGE

_COLORS = "cividis"  # color-blind safe; dark where labels are confused
_MOST = 20  # labels per matrix; the names of more are not legible at the default width


def pair_matrix(rows: pl.DataFrame, classes: int) -> Array:
    """Columns label, other, and mean as a symmetric matrix, [C, C]; NaN on the diagonal."""
    matrix = np.full((classes, classes), np.nan)
    for label, other, mean in rows.select("label", "other", "mean").iter_rows():
        matrix[label, other] = matrix[other, label] = np.nan if mean is None else mean
    return matrix


def most_confused(auc: Array, number: int) -> list[int]:
    """The labels of the pairs that are separated least: at most ``number`` indices, increasing.

    Parameters
    ----------
    auc : [C, C]
        From :func:`pair_matrix`.
    """
    lowest = np.where(np.isnan(auc), 1, auc).min(1)  # undefined pairs come last
    return sorted(np.argsort(lowest, kind="stable")[:number].tolist())


def _plot_none(
    confusion: pl.DataFrame, style: Mapping[str, Any], paths: Mapping[str, str | Path]
) -> None:
    """Save a figure that states why there is nothing to plot."""
    title = f"Confusion of labels and distance between their keys,\n{confusion['model'][0]}"
    with small_multiples(style, 1, 2, title) as (figure, axes):
        for panel in axes[0]:
            panel.set_axis_off()
        figure.text(0.5, 0.4, "no task has three or more labels", ha="center")
        save(figure, paths)


def plot_confusion(
    summary: pl.DataFrame,
    labels: Mapping[str, Sequence[str]],
    style: Mapping[str, Any],
    confidence: float,
    paths: Mapping[str, str | Path],
) -> None:
    """Plot ``CONFUSION_SUMMARY`` for one model, one row per task with three or more labels.

    Left: AUC between the examples of two labels. Middle: distance between their keys, averaged over
    the last third of the layers. Of more than 20 labels, both contain the most confused ones.
    Right: rank correlation of the two in every layer. With several such tasks, a last row contains
    the correlation averaged over tasks. Distances are the paper's, with all heads as one vector.

    Parameters
    ----------
    labels : mapping
        Label words of every task.
    """
    summary = summary.filter(pl.col("heads").is_null() | (pl.col("heads") == "concatenated"))
    tasks = [
        task
        for task in summary["task"].unique(maintain_order=True)
        if task != AVERAGE and len(labels[task]) > 2
    ]
    if not tasks:
        _plot_none(summary, style, paths)
        return
    last_row = [AVERAGE] if len(tasks) != 1 else []
    layers = summary.filter(pl.col("measure") == "correlation")["layer"].n_unique()
    late = last_third(layers).start
    title = "Confusion of labels and distance between their keys,\n"
    title += describe(summary, confidence)
    with small_multiples(style, len(tasks) + len(last_row), 3, title, share=False) as (fig, axes):
        for row, task in enumerate([*tasks, *last_row]):
            rows = summary.filter(pl.col("task") == task)
            left, middle, right = axes[row]
            correlations = rows.filter(pl.col("measure") == "correlation")
            plot_line(right, correlations, style["colors"][0], 0, "")
            right.set_xlim(-0.5, layers - 0.5)
            if correlations["mean"].is_null().all():
                right.text((layers - 1) / 2, 0.1, "all pairs have the same AUC", ha="center")
            right.axhline(0, color="0.6", linewidth=0.6, zorder=0)
            right.set_ylim(-1.05, 1.05)
            right.set_ylabel("rank correlation")
            right.set_xlabel("layer")
            right.set_title("average" if task == AVERAGE else f"{task}: correlation")
            if task == AVERAGE:
                left.set_axis_off()
                middle.set_axis_off()
                continue
            distances = (
                rows.filter(pl.col("measure") == "distance", pl.col("layer") >= late)
                .group_by("label", "other")
                .agg(pl.col("mean").mean())
            )
            classes = len(labels[task])
            auc = pair_matrix(rows.filter(pl.col("measure") == "auc"), classes)
            chosen = most_confused(auc, _MOST)
            words = [labels[task][label] for label in chosen]
            _plot_matrix(left, auc[np.ix_(chosen, chosen)], words, 0.5)
            some = f",\n{len(chosen)} of {classes} labels, most confused" * (len(chosen) < classes)
            left.set_title(f"{task}: AUC of two labels{some}")
            far = pair_matrix(distances, classes)
            _plot_matrix(middle, far[np.ix_(chosen, chosen)], words, 0.0)
            middle.set_title(f"key distance, layers {late} to {layers - 1}")
        save(fig, paths)


def _plot_matrix(axes: Axes, matrix: Array, labels: Sequence[str], lowest: float) -> None:
    image = axes.imshow(matrix, _COLORS, vmin=lowest, vmax=1, interpolation="nearest")
    words = [as_shown(word) for word in labels]
    # Names shrink so that those of many labels fit one below the other.
    height = axes.get_window_extent().height / axes.figure.dpi * 72  # points
    size = min(plt.rcParams["font.size"], 0.85 * height / len(words))
    if len(words) > 8:
        turned: dict[str, Any] = {"rotation": 90}
    else:
        turned = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(range(len(words)), words, fontsize=size, **turned)
    axes.set_yticks(range(len(words)), words, fontsize=size)
    axes.figure.colorbar(image, ax=axes, shrink=0.8, extend="min" if lowest > 0 else "neither")
