"""How well kernel regression with each head's attention reconstructs predictions, by layer."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from matplotlib.ticker import MaxNLocator

from anchorflow.present.style import describe, save, small_multiples, tasks_in_order

_AXES = {
    "agreement": ("agreement with the model", "viridis"),
    "accuracy": ("accuracy", "viridis"),
    "correlation": ("correlation with similarity", "PuOr"),
}


def plot_kernel(
    summary: pl.DataFrame,
    style: Mapping[str, Any],
    confidence: float,
    paths: Mapping[str, str | Path],
) -> None:
    """Plot ``KERNEL_SUMMARY`` for one model, with the largest attention as weights.

    One row per measure and one column per task; the best head of each panel is marked and named.
    """
    largest = summary.filter(pl.col("weights") == "max")
    tasks = tasks_in_order(summary)
    # Without the clause on intervals, which heat maps do not have.
    total = describe(summary, confidence).partition(";")[0]
    title = f"Kernel regression with the attention of each head, {total}"
    with small_multiples(style, len(_AXES), len(tasks), title) as (figure, axes):
        for row, (measure, (name, colors)) in enumerate(_AXES.items()):
            of_measure = largest.filter(pl.col("measure") == measure)
            lowest, highest = (0.0, 1.0) if measure != "correlation" else _symmetric(of_measure)
            image = None
            for column, task in enumerate(tasks):
                panel = axes[row][column]
                matrix = _matrix(of_measure.filter(pl.col("task") == task))
                image = panel.imshow(
                    matrix,
                    colors,
                    vmin=lowest,
                    vmax=highest,
                    origin="lower",
                    aspect="auto",
                    interpolation="nearest",
                )
                best = np.where(np.isnan(matrix), -np.inf, matrix).argmax()
                layer, head = np.unravel_index(best, matrix.shape)
                panel.plot(head, layer, "o", color="white", markeredgecolor="black", markersize=3.5)
                found = f"{matrix[layer, head]:.2f} in layer {layer}, head {head}"
                panel.set_title(f"{task}\n{found}" if row == 0 else found)
                panel.xaxis.set_major_locator(MaxNLocator(integer=True))
                panel.yaxis.set_major_locator(MaxNLocator(integer=True))
                if column == 0:
                    panel.set_ylabel("layer")
                if row == len(_AXES) - 1:
                    panel.set_xlabel("head")
            assert image is not None
            figure.colorbar(image, ax=axes[row], label=name, pad=0.01)
        save(figure, paths)


def _symmetric(rows: pl.DataFrame) -> tuple[float, float]:
    """Limits symmetric around 0 that include all means."""
    largest = float(np.nanmax(np.abs(rows["mean"].fill_null(0).to_numpy()), initial=0.01))
    return -largest, largest


def _matrix(rows: pl.DataFrame) -> np.ndarray:
    """Means as [L, H]; NaN where undefined."""
    ordered = rows.sort("layer", "head")
    values: np.ndarray = ordered["mean"].fill_null(np.nan).to_numpy()
    return values.reshape(ordered["layer"].n_unique(), -1)
