"""Accuracy and loyalty retained when queries see no demonstrations from some layer on."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from anchorflow.present.style import (
    chance_levels,
    describe,
    legend_below,
    legend_entries,
    lowest,
    plot_chance,
    plot_line,
    save,
    small_multiples,
)
from anchorflow.statistics.by_task import AVERAGE

_SEES = {
    "first": "first token only",
    "label": "first token and label words",
    "random": "first token and equally many random tokens",
}
_PANELS = {
    "accuracy": "accuracy",
    "label_loyalty": "label loyalty",
    "word_loyalty": "word loyalty",
    "retained": "demonstrations' effect\nretained",
}


def plot_cutoff(
    summary: pl.DataFrame,
    labels: Mapping[str, Sequence[str]],
    style: Mapping[str, Any],
    confidence: float,
    paths: Mapping[str, str | Path],
) -> None:
    """Plot ``CUTOFF_SUMMARY`` for one model, averaged over tasks: a panel per measure.

    Vertical lines mark the first layer from which 95 % of accuracy and label loyalty is retained.
    """
    averaged = summary.filter(pl.col("task") == AVERAGE, pl.col("mean").is_not_null())
    title = "Demonstrations hidden from the cutoff layer on, averaged over tasks,\n"
    title += describe(summary, confidence)
    with small_multiples(style, 1, len(_PANELS), title) as (figure, (panels,)):
        for axes, (measure, name) in zip(panels, _PANELS.items(), strict=True):
            for order, (sees, legend) in enumerate(_SEES.items()):
                rows = averaged.filter(pl.col("sees") == sees)
                if rows.is_empty():
                    continue
                of_measure = rows.filter(pl.col("measure") == measure)
                plot_line(axes, of_measure, style["colors"][order], order, legend)
                for (needed,) in rows.filter(pl.col("measure") == "needed").select("mean").rows():
                    axes.axvline(needed, color=style["colors"][order], linewidth=0.6, zorder=0)
            if measure == "accuracy":
                plot_chance(axes, chance_levels(labels)[AVERAGE])
            axes.set_ylim(lowest(averaged.filter(measure=measure)), 1.03)
            axes.set_xlabel("cutoff layer")
            axes.set_ylabel(name)
        handle_of = legend_entries(panels)
        legend_below(
            figure,
            handle_of.values(),
            handle_of,
            title="visible from the cutoff layer on; vertical lines: 95 % of accuracy and label "
            "loyalty retained",
        )
        save(figure, paths)
