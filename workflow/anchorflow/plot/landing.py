"""Where on the demonstrations attention lands: by segment, and along a demonstration."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from anchorflow.plot.style import describe, save, small_multiples, tasks_in_order

# Okabe-Ito colors, with dash styles to distinguish lines in grayscale.
_SEGMENTS = {
    "before_text": ("before the text", "#999999", ":"),
    "text": ("text", "#0072B2", "--"),
    "before_label": ("before the label word", "#E69F00", "-."),
    "label": ("label word", "#D55E00", "-"),
    "after": ("after", "#000000", (0, (1, 1))),
}


def plot_landing(
    landing: pl.DataFrame,
    style: Mapping[str, Any],
    confidence: float,
    paths: Mapping[str, str | Path],
) -> None:
    """Plot the table ``landing`` of one model, one column per task.

    Top: attention from the target per token of each segment, by layer. Bottom: attention along the
    demonstrations, all rescaled to one length, relative to the largest value of each layer.
    """
    tasks = tasks_in_order(landing)
    title = "Attention from the target to the demonstrations, averaged over heads,\n"
    title += describe(landing, confidence)
    with small_multiples(style, 2, len(tasks), title, share=False) as (figure, axes):
        for column, task in enumerate(tasks):
            rows = landing.filter(pl.col("task") == task)
            above, below = axes[0][column], axes[1][column]
            _plot_segments(above, rows.filter(pl.col("measure") == "per_token"))
            above.set_title(task)
            above.set_xlabel("layer")
            image = _plot_places(below, rows)
            below.set_xlabel("place in the demonstration")
            if column == 0:
                above.set_ylabel("attention per token")
                below.set_ylabel("layer")
        handles, names = axes[0][0].get_legend_handles_labels()
        figure.legend(
            handles, names, loc="outside lower center", ncols=len(_SEGMENTS), handlelength=3
        )
        figure.colorbar(image, ax=axes[1], label="share of the layer's largest", pad=0.01)
        save(figure, paths)


def _plot_segments(axes: Axes, rows: pl.DataFrame) -> None:
    for segment, (name, color, dashes) in _SEGMENTS.items():
        line = rows.filter(pl.col("segment") == segment).sort("layer")
        axes.plot(line["layer"], line["mean"], color=color, linestyle=dashes, label=name)
        axes.fill_between(
            line["layer"], line["low"], line["high"], color=color, alpha=0.18, linewidth=0
        )
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _plot_places(axes: Axes, rows: pl.DataFrame) -> Any:
    places = rows.filter(pl.col("place").is_not_null()).sort("layer", "place")
    layers = places["layer"].n_unique()
    matrix = places["mean"].to_numpy().reshape(layers, -1)
    largest = matrix.max(1, keepdims=True)
    scaled = np.divide(matrix, largest, out=np.zeros(matrix.shape), where=largest > 0)
    image = axes.imshow(
        scaled,
        "viridis",
        vmin=0,
        vmax=1,
        origin="lower",
        aspect="auto",
        extent=(0, 1, -0.5, layers - 0.5),
        interpolation="nearest",
    )
    widths = rows.filter(pl.col("measure") == "width", pl.col("layer") == 0)
    of_segment = dict(widths.select("segment", "mean").iter_rows())
    ends = np.cumsum([of_segment[segment] for segment in _SEGMENTS])
    for end in ends[:-1]:
        axes.axvline(end, color="white", linewidth=0.6, linestyle=":")
    for segment, end in zip(_SEGMENTS, ends, strict=True):
        if segment in ("text", "label"):
            middle = end - of_segment[segment] / 2
            axes.annotate(
                segment, (middle, 1.0), (0, 2), ("data", "axes fraction"),
                textcoords="offset points", ha="center", fontsize="x-small",
            )  # fmt: skip
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    return image
