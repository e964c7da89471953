"""Loyalty and accuracy of compressed demonstrations, by method and by the share that is kept."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.isotonic import isotonic_regression

from anchorflow.analyses.compression.styles import LOOKS, Look
from anchorflow.present.style import (
    chance_levels,
    describe,
    legend_below,
    legend_entries,
    lowest,
    plot_chance,
    save,
    small_multiples,
    spread,
)
from anchorflow.statistics.by_task import AVERAGE

_LISTED = 7  # methods that the default height of a panel has room for
_NAMED = 10  # names that have room beside a panel of the default height
_LEAD = {"accuracy": "accuracy", "label_loyalty": "label loyalty"}
# Without a share, but what lines are compared with; the other methods by role are listed below.
_POINTS = ("hidden_anchor", "text_anchor", "hidden_random")
_LEVELS = {"full": "-", "first_only": (0, (4, 2))}  # which keep everything and nothing
_End = tuple[float | None, float, Look]  # share kept and height at a line's end; None: level
_AXES = {
    "label_loyalty": "label loyalty",
    "word_loyalty": "word loyalty",
    "retained": "demonstrations' effect\nretained",
    "accuracy": "accuracy",
}


def plot_compression(
    summary: pl.DataFrame,
    labels: Mapping[str, Sequence[str]],
    style: Mapping[str, Any],
    confidence: float,
    paths: Mapping[str, str | Path],
) -> None:
    """Plot ``COMPRESSION_SUMMARY`` for one model, averaged over tasks.

    Top: accuracy and label loyalty over the share kept, for methods that can keep any share, beside
    the anchors, everything kept, and no demonstrations. Bottom: every method at the number of
    anchors, or at its own number of tokens.
    """
    averaged = summary.filter(pl.col("task") == AVERAGE)
    fixed = averaged.filter(pl.col("share").is_null())
    kept = averaged.filter(pl.col("measure") == "kept_share").select(
        "method", "share", pl.col("mean").alias("kept")
    )
    swept = averaged.filter(pl.col("share").is_not_null())["method"].unique()
    compared = averaged.join(
        kept, on=["method", "share"], nulls_equal=True, maintain_order="left"
    ).filter(pl.col("method").is_in([*swept, *_POINTS, *_LEVELS]))
    title = "Compressed demonstrations, averaged over tasks,\n"
    title += describe(summary, confidence, "error bars")
    level = chance_levels(labels)[AVERAGE]
    rows = 1 if swept.is_empty() else 2
    with small_multiples(style, rows, len(_AXES), title, share=False) as (figure, axes):
        grid = axes[0][0].get_gridspec()
        assert grid is not None
        heights = [max(1.0, fixed["method"].n_unique() / _LISTED)]
        if rows == 2:
            named = sum(method in compared["method"] for method in LOOKS)
            heights = [max(1.3, (named + 3) / _NAMED), *heights]
            for panel, (measure, name) in zip(
                _panels(figure, axes[0], (1.6, 0, 1.15, 1.6, 0, 1.15)), _LEAD.items(), strict=True
            ):
                _plot_sweep(panel, compared.filter(pl.col("measure") == measure))
                panel.set_title(name)
                if measure == "accuracy":
                    plot_chance(panel, level)
        panels = _panels(figure, axes[-1], (0, 1.6, *(1 for _ in _AXES)))
        for panel, (measure, name) in zip(panels, _AXES.items(), strict=True):
            _plot_list(panel, fixed.filter(pl.col("measure") == measure), panel is panels[0])
            panel.set_title(name)
        plot_chance(panels[-1], level, vertical=True)
        figure.set_figheight(figure.get_figheight() * sum(heights) / len(heights))
        grid.set_height_ratios(heights)
        handles = legend_entries(panels)
        legend_below(figure, handles.values(), handles)
        save(figure, paths)


def _panels(figure: Figure, row: Sequence[Axes], widths: Sequence[float]) -> list[Axes]:
    """Panels in place of a row, of relative widths; what follows 0 is room for names."""
    grid = row[0].get_gridspec()
    assert grid is not None
    place = grid[row[0].get_subplotspec().rowspan.start, :]  # type: ignore[union-attr]
    for panel in row:
        panel.remove()
    wide = [(width, before == 0) for before, width in pairwise([1, *widths]) if width]
    parts = place.subgridspec(1, len(wide), width_ratios=[width for width, _ in wide])
    return [figure.add_subplot(parts[k]) for k, (_, room) in enumerate(wide) if not room]


def _plot_list(axes: Axes, rows: pl.DataFrame, named: bool) -> None:
    """Plot the mean and interval of every method, the first method on top."""
    methods = [method for method in LOOKS if method in rows["method"]]
    for place, method in enumerate(methods):
        if place and LOOKS[method].color != LOOKS[methods[place - 1]].color:  # another group
            axes.axhline(place - 0.5, color="0.6", linewidth=0.4, zorder=0)
        row, look = rows.filter(pl.col("method") == method), LOOKS[method]
        axes.errorbar(row["mean"], [place], xerr=spread(row), **look.marks, elinewidth=0.7)
    axes.set_yticks(range(len(methods)), ["" for _ in methods])
    for place, method in enumerate(methods if named else ()):
        axes.annotate(
            LOOKS[method].name,
            (0, place),
            (-6, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            horizontalalignment="right",
            verticalalignment="center",
            annotation_clip=False,
        ).set_in_layout(False)
    axes.set_ylim(len(methods) - 0.5, -0.5)
    # What is retained is below 0 where probabilities are farther off than without demonstrations.
    axes.set_xlim(lowest(rows), 1.04)
    axes.grid(axis="y", linewidth=0.3, color="0.85")


def _wide(figure: Figure, panels: Sequence[Axes]) -> list[Axes]:
    """Two panels in place of a row of four."""
    grid = panels[0].get_gridspec()
    assert grid is not None
    for panel in panels:
        panel.remove()
    half = len(panels) // 2
    return [figure.add_subplot(grid[0, :half]), figure.add_subplot(grid[0, half:])]


def _plot_sweep(axes: Axes, rows: pl.DataFrame) -> None:
    """Plot a line for every method over the share that it keeps, with its name at its end."""
    ends: list[_End] = []
    for method, look in LOOKS.items():
        line = rows.filter(pl.col("method") == method).sort("kept")
        if line.is_empty():
            continue
        if method in _LEVELS:
            height = float(line["mean"][0])
            axes.axhline(height, color=look.color, linestyle=_LEVELS[method], linewidth=0.8)
            ends.append((None, height, look))
            continue
        axes.errorbar(
            line["kept"],
            line["mean"],
            yerr=spread(line),
            **look.marks,
            linestyle="-" if len(line) > 1 else "none",
            elinewidth=0.4,
            linewidth=0.9,
            zorder=3 if method in _POINTS else 2,
        )
        ends.append((float(line["kept"][-1]), float(line["mean"][-1]), look))
    axes.set_xlabel("share of the demonstrations kept")
    axes.set_xlim(0, 1.06 * max((end for end, _, _ in ends if end is not None), default=1.0))
    of_lines = rows.filter(~pl.col("method").is_in([*_LEVELS]))
    bounds = of_lines.select("low", "high").drop_nulls().to_numpy().ravel().tolist()
    bounds += [height for _, height, _ in ends]
    axes.set_ylim(min(bounds) - 0.03, max(bounds) + 0.03)
    _name_ends(axes, ends)


def _name_ends(axes: Axes, ends: Sequence[_End]) -> None:
    """Write the names of lines beside the panel, each as near to its end as others leave room."""
    ends = sorted(ends, key=lambda end: end[1])
    low, high = axes.get_ylim()
    step = (high - low) / max(len(ends), _NAMED)
    steps = step * np.arange(len(ends))
    heights = np.array([height for _, height, _ in ends])
    places = isotonic_regression(heights - steps, y_min=low, y_max=high - steps[-1]) + steps
    right = axes.get_xlim()[1]
    for (end, height, look), place in zip(ends, places, strict=True):
        axes.annotate(
            look.name,
            (right if end is None else end, height),
            (1.05 * right, place),
            color=look.color,
            fontsize="small",
            verticalalignment="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": look.color, "linewidth": 0.3, "shrinkA": 1},
        ).set_in_layout(False)
