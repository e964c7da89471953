"""How much one vector recovers of what demonstrations add, over depth."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.axes import Axes

from anchorflow.analyses.vectors import ALL, NO_LAYER
from anchorflow.present.style import (
    describe,
    legend_below,
    legend_entries,
    plot_line,
    save,
    small_multiples,
    thin,
)
from anchorflow.statistics.by_task import AVERAGE

_VECTORS = {
    "task": "task vector\nin place of the target's state",
    "function": "function vector\nadded at the target",
    "local": "local vectors at label words,\ntexts random",
}
_CONTROLS = {
    "deranged": "from prompts with wrong label words",
    "other_task": "from another task",
    "without": "from prompts without demonstrations",
    "random": "random, of the same length",
}
_APART = 0.06  # a line of text, on axes from 0 to 1
_MEASURES = {
    "accuracy": "accuracy",
    "recovered_probability": "share recovered of the true\nlabel's added probability",
}


def plot_vectors(
    summary: pl.DataFrame,
    style: Mapping[str, Any],
    confidence: float,
    paths: Mapping[str, str | Path],
) -> None:
    """Plot the table ``vectors_summary`` of one model, averaged over tasks.

    A column per kind of vector, and a row for accuracy and for what is recovered. Dotted lines are
    prompts without a vector, by number of demonstrations.
    """
    averaged = summary.filter(pl.col("task") == AVERAGE, pl.col("mean").is_not_null())
    run = set(summary["vector"])
    columns = {name: title for name, title in _VECTORS.items() if name in run} or _VECTORS
    title = "The task in one vector, averaged over tasks,\n" + describe(summary, confidence)
    with small_multiples(style, len(_MEASURES), len(columns), title, share_y=True) as (
        figure,
        axes,
    ):
        for (measure, name), panels in zip(_MEASURES.items(), axes, strict=True):
            rows = averaged.filter(measure=measure)
            for place, (panel, (vector, of)) in enumerate(
                zip(panels, columns.items(), strict=True)
            ):
                _plot_vector(panel, rows.filter(vector=vector), style["colors"][0])
                plain = dict(rows.filter(vector="none").select("number", "mean").iter_rows())
                last = place + 1 == len(columns)
                if rows.is_empty():
                    undefined: Any = {"ha": "center", "va": "center", "color": "0.4"}
                    words = "not defined: demonstrations\nadd too little"
                    panel.text(0.5, 0.5, words, transform=panel.transAxes, **undefined)
                elif measure != "accuracy":
                    plain |= {0: 0.0, ALL: 1.0}
                    if vector == "local":  # whose shares start at random texts
                        plain = {ALL: 1.0}
                _plot_demonstrations(panel, plain, last)
                if measure == "accuracy":
                    panel.set_title(of)
                else:
                    panel.set_xlabel("after layer …")
            panels[0].set_ylabel(name)
        handle_of = legend_entries(axes[0])
        if handle_of:
            legend_below(figure, handle_of.values(), handle_of, title="vectors, by their source")
        save(figure, paths)


def _plot_vector(axes: Axes, rows: pl.DataFrame, color: str) -> None:
    at_layers = rows.filter(pl.col("layer") != NO_LAYER)
    own = at_layers.filter(source="own")
    if not own.is_empty():
        plot_line(axes, own, color, 0, "from the task's own prompts", zorder=3)
    for order, (source, name) in enumerate(_CONTROLS.items()):
        of_source = at_layers.filter(source=source)
        if not of_source.is_empty():
            plot_line(axes, of_source, order=order, label=name, alpha=0, **thin(order))
    for mean in rows.filter(source="none")["mean"]:
        look: Any = {"color": "#404040", "linewidth": 0.8, "linestyle": "-."}
        axes.axhline(mean, label="no vector, random texts", **look)


def _plot_demonstrations(axes: Axes, means: Mapping[int, float], is_last: bool) -> None:
    """Dotted lines with the number of demonstrations at their right ends."""
    for mean in means.values():
        look: Any = {"color": "0.6", "linewidth": 0.6, "linestyle": ":", "zorder": 0}
        axes.axhline(mean, label="no vector, 0, 1, 2, … demonstrations", **look)
    if not is_last:
        return
    together: list[tuple[float, list[str]]] = []  # lines too near to be named one above another
    for number, mean in sorted(means.items(), key=lambda line: line[1]):
        words = "all" if number == ALL else str(number)
        if together and mean - together[-1][0] < _APART:
            together[-1][1].append(words)
        else:
            together.append((mean, [words]))
    for mean, names in together:
        place: Any = {"xycoords": ("axes fraction", "data"), "va": "center", "color": "0.4"}
        axes.annotate(", ".join(names), (1.01, mean), **place)
