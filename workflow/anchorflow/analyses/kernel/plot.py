"""How well kernel regression with each head's attention reconstructs predictions, by layer."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.image import AxesImage

from anchorflow.present.style import (
    describe,
    layers_by_heads,
    number_layers,
    save,
    small_multiples,
    tasks_in_order,
)

_AXES = {
    "agreement": ("agreement\nwith the model", "viridis"),
    "accuracy": ("accuracy", "viridis"),
    "correlation": ("correlation with the\nsimilarity of texts", "PuOr"),
}


def plot_kernel(
    summary: pl.DataFrame,
    style: Mapping[str, Any],
    confidence: float,
    paths: Mapping[str, str | Path],
) -> None:
    """Plot ``KERNEL_SUMMARY`` for one model, with the largest attention as weights.

    One row per task and one column per measure; a circle marks the best head, which is named above,
    with its interval and what always answering the same would reach.
    """
    largest, constant = (summary.filter(weights=weights) for weights in ("max", "none"))
    tasks = tasks_in_order(summary)
    title = "Kernel regression with the attention of each head\n"
    title += "(circle: best head; constant: always the same answer),\n"
    title += describe(summary, confidence, "brackets")
    with small_multiples(style, len(tasks), len(_AXES), title) as (figure, axes):
        for column, (measure, (name, colors)) in enumerate(_AXES.items()):
            panels = [row[column] for row in axes]
            of_measure = largest.filter(measure=measure)
            limits = (0.0, 1.0) if measure != "correlation" else _symmetric(of_measure)
            for panel, task in zip(panels, tasks, strict=True):
                image = _plot_heads(panel, of_measure.filter(task=task), colors, limits)
                for mean in constant.filter(measure=measure, task=task)["mean"]:
                    panel.set_title(f"{panel.get_title()}, constant {mean:.2f}")
            panels[-1].set_xlabel("head")
            figure.colorbar(image, ax=panels, label=name, location="top", pad=0.02, aspect=30)
        for row, task in zip(axes, tasks, strict=True):
            row[0].set_ylabel(f"{task}\nlayer")
        save(figure, paths)


def _plot_heads(
    axes: Axes, rows: pl.DataFrame, colors: str, limits: tuple[float, float]
) -> AxesImage:
    """Plot a value per layer and head, and name the largest with its interval."""
    matrix = layers_by_heads(rows)
    image = axes.imshow(
        matrix,
        colors,
        vmin=limits[0],
        vmax=limits[1],
        origin="lower",
        aspect="auto",
        interpolation="nearest",
    )
    best = np.where(np.isnan(matrix), -np.inf, matrix).argmax()
    layer, head = np.unravel_index(best, matrix.shape)
    axes.plot(head, layer, "o", color="white", markeredgecolor="black", markersize=3.5)
    named = f"{matrix[layer, head]:.2f} in layer {layer}, head {head}"
    for low, high in rows.filter(layer=layer, head=head).select("low", "high").drop_nulls().rows():
        named += f"\n[{low:.2f}, {high:.2f}]"
    axes.set_title(named)
    number_layers(axes.xaxis)
    number_layers(axes.yaxis)
    return image


def _symmetric(rows: pl.DataFrame) -> tuple[float, float]:
    """Limits symmetric around 0 that include all means."""
    largest = float(np.nanmax(np.abs(rows["mean"].fill_null(0).to_numpy()), initial=0.01))
    return -largest, largest
