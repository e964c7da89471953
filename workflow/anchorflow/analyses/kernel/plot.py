"""How well kernel regression with each head's attention reconstructs predictions, by layer."""

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.image import AxesImage

from anchorflow.present import style as look
from anchorflow.present.style import Paths, Style, small_multiples
from anchorflow.schemas.frames import layers_of

_AXES = {
    "agreement": ("agreement\nwith the model", "viridis"),
    "accuracy": ("accuracy", "viridis"),
    "correlation": ("correlation with the\nsimilarity of texts", "PuOr"),
}


def plot_kernel(summary: pl.DataFrame, style: Style, confidence: float, paths: Paths) -> None:
    """Plot ``KERNEL_SUMMARY`` for one model, with the largest attention as weights.

    One row per task and one column per measure; a circle marks the best head, which is named above,
    with its interval and what always answering the same would reach.
    """
    largest, constant = (summary.filter(weights=weights) for weights in ("max", "none"))
    tasks = look.tasks_in_order(summary)
    title = "Kernel regression with the attention of each head\n"
    title += "(circle: best head; constant: always the same answer),\n"
    title += look.describe(summary, confidence, "brackets")
    with small_multiples(style, len(tasks), len(_AXES), title) as (figure, axes):
        for column, (measure, (name, colors)) in enumerate(_AXES.items()):
            panels = [row[column] for row in axes]
            of_measure = largest.filter(measure=measure)
            limits = (0.0, 1.0) if measure != "correlation" else _symmetric(of_measure)
            for panel, task in zip(panels, tasks, strict=True):
                image = _plot_heads(panel, of_measure.filter(task=task), colors, limits)
                for mean in constant.filter(measure=measure, task=task)["mean"].drop_nulls():
                    panel.set_title(f"{panel.get_title()}, constant {mean:.2f}")
            panels[-1].set_xlabel("head")
            figure.colorbar(image, ax=panels, label=name, location="top", pad=0.02, aspect=30)
        for row, task in zip(axes, tasks, strict=True):
            row[0].set_ylabel(f"{task}\nlayer")
        look.save(figure, paths)


def _plot_heads(
    axes: Axes, rows: pl.DataFrame, colors: str, limits: tuple[float, float]
) -> AxesImage:
    """Plot a value per layer and head, and name the largest with its interval."""
    matrix = look.layers_by_heads(rows)
    layers = layers_of(rows)
    image = look.heat_map(axes, matrix, colors, limits, layers)
    best = np.where(np.isnan(matrix), -np.inf, matrix).argmax()
    layer, head = np.unravel_index(best, matrix.shape)
    look.circle(axes, int(layer), int(head))
    named = f"{matrix[layer, head]:.2f} in layer {layers[int(layer)]}, head {head}"
    of_best = rows.filter(layer=layers[int(layer)], head=head)
    for low, high in of_best.select("low", "high").drop_nulls().rows():
        named += f"\n[{low:.2f}, {high:.2f}]"
    axes.set_title(named)
    return image


def _symmetric(rows: pl.DataFrame) -> tuple[float, float]:
    """Limits symmetric around 0 that include all means."""
    largest = float(np.nanmax(np.abs(rows["mean"].fill_null(0).to_numpy()), initial=0.01))
    return -largest, largest
