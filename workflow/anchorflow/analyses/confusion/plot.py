"""Fig. 6 of [A] for any model: confusion of labels, measured and predicted from their keys."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.image import AxesImage

from anchorflow.arrays import Array
from anchorflow.depth import last_third
from anchorflow.present import style as look
from anchorflow.present.style import Paths, Style, small_multiples
from anchorflow.schemas.frames import layers_of
from anchorflow.statistics.by_task import AVERAGE

_COLORS = "cividis"  # color-blind safe; dark where labels are confused
_MOST = 14  # labels per matrix; the names of more are not legible on a page


def pair_matrix(rows: pl.DataFrame, classes: int) -> Array:
    """Columns label, other, and mean as a symmetric matrix, [C, C]; NaN on the diagonal."""
    matrix = np.full((classes, classes), np.nan)
    for label, other, mean in rows.select("label", "other", "mean").iter_rows():
        matrix[label, other] = matrix[other, label] = np.nan if mean is None else mean
    return matrix


def most_confused(auc: Array, number: int) -> list[int]:
    """The labels of the pairs that are separated least: at most ``number`` indices, increasing.

    ``auc``, [C, C], is that of :func:`pair_matrix`.
    """
    lowest = np.where(np.isnan(auc), 1, auc).min(1)  # undefined pairs come last
    return sorted(np.argsort(lowest, kind="stable")[:number].tolist())


def _plot_none(confusion: pl.DataFrame, style: Style, paths: Paths) -> None:
    """Save a figure that states why there is nothing to plot."""
    title = f"Confusion of labels and distance between their keys,\n{confusion['model'][0]}"
    with small_multiples(style, 1, 2, title) as (figure, axes):
        for panel in axes[0]:
            panel.set_axis_off()
        figure.text(0.5, 0.4, "no task has three or more labels", ha="center")
        look.save(figure, paths)


def plot_confusion(
    summary: pl.DataFrame,
    labels: Mapping[str, Sequence[str]],
    style: Style,
    confidence: float,
    paths: Paths,
) -> None:
    """Plot ``CONFUSION_SUMMARY`` for one model, one row per task with three or more labels.

    Left: AUC between the examples of two labels. Middle: distance between their keys, averaged over
    the last third of the layers. Of more than 14 labels, both contain the most confused ones.
    Right: rank correlation of the two in every layer. With several such tasks, a last row contains
    the correlation averaged over tasks. Distances are the paper's, with all heads as one vector.
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
    correlated = summary.filter(measure="correlation")
    layers = layers_of(correlated)
    late = layers[last_third(len(layers)).start]
    title = "Confusion of labels and distance between their keys,\n"
    title += look.describe(correlated, confidence)
    with small_multiples(style, len(tasks) + len(last_row), 3, title, share=False) as (fig, axes):
        fig.set_figheight(fig.get_figheight() + 0.6 * len(tasks) + 0.5)  # names, and color bars
        for task, (left, middle, right) in zip([*tasks, *last_row], axes, strict=True):
            rows = summary.filter(task=task)
            _plot_correlation(right, rows.filter(measure="correlation"), style["colors"][0])
            right.set_xlim(-0.5, layers[-1] + 0.5)
            if task == AVERAGE:
                right.set_title("average over tasks")
                left.set_visible(False)
                middle.set_visible(False)
                continue
            distances = (
                rows.filter(pl.col("measure") == "distance", pl.col("layer") >= late)
                .group_by("label", "other")
                .agg(pl.col("mean").mean())
            )
            classes = len(labels[task])
            auc = pair_matrix(rows.filter(measure="auc"), classes)
            chosen = most_confused(auc, _MOST)
            words = [labels[task][label] for label in chosen]
            separated = _plot_matrix(left, auc[np.ix_(chosen, chosen)], words, 0.5)
            far = pair_matrix(distances, classes)
            apart = _plot_matrix(middle, far[np.ix_(chosen, chosen)], words, 0.0)
            middle.set_yticks([])
            left.set_title(task)
            right.set_title(task)
            if len(chosen) < classes:
                middle.set_title(f"{len(chosen)} of {classes} labels, most confused")
        for image, column, name in (
            (separated, 0, "AUC of two labels"),
            (apart, 1, f"distance of their keys,\nlayers {late} to {layers[-1]}"),
        ):
            of_tasks = [row[column] for row in axes[: len(tasks)]]
            extend = "min" if column == 0 else "neither"
            fig.colorbar(image, ax=of_tasks, label=name, location="top", extend=extend)
        axes[-1][2].set_xlabel("layer")
        look.save(fig, paths)


def _plot_correlation(axes: Axes, rows: pl.DataFrame, color: str) -> None:
    look.plot_line(axes, rows, color, 0, "")
    if rows["mean"].is_null().all():
        reason = "all pairs have\nthe same AUC"
        axes.text(0.5, 0.1, reason, transform=axes.transAxes, ha="center")
    axes.axhline(0, color="0.6", linewidth=0.6, zorder=0)
    axes.set_ylim(-1.05, 1.05)
    axes.set_ylabel("rank correlation of\nAUC and distance")


def _plot_matrix(axes: Axes, matrix: Array, labels: Sequence[str], lowest: float) -> AxesImage:
    image = axes.imshow(matrix, _COLORS, vmin=lowest, vmax=1, interpolation="nearest")
    words = [look.as_shown(word) for word in labels]
    # Names shrink so that those of many labels fit one below the other.
    height = axes.get_window_extent().height / axes.figure.dpi * 72  # points
    size = min(plt.rcParams["font.size"], 0.85 * height / len(words))
    if len(words) > 8:
        turned: dict[str, Any] = {"rotation": 90}
    else:
        turned = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(range(len(words)), words, fontsize=size, **turned)
    axes.set_yticks(range(len(words)), words, fontsize=size)
    return image
