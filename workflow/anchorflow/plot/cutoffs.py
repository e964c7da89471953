"""What predictions keep when queries see no demonstrations from some layer on."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from anchorflow.plot.style import describe, legend_below, plot_line, save, small_multiples
from anchorflow.summarize.by_task import AVERAGE

_SEES = {
    "first": "nothing but the first token",
    "label": "label words too",
    "random": "as many other tokens instead",
}
_PANELS = {
    "accuracy": "accuracy",
    "label_loyalty": "label loyalty",
    "word_loyalty": "word loyalty",
}


def plot_cutoffs(
    cutoffs: pl.DataFrame,
    style: Mapping[str, Any],
    confidence: float,
    paths: Mapping[str, str | Path],
) -> None:
    """Plot the table ``cutoffs`` of one model, averaged over tasks: a panel per measure.

    Vertical lines are where 95 % of accuracy and label loyalty are kept from.
    """
    averaged = cutoffs.filter(pl.col("task") == AVERAGE, pl.col("mean").is_not_null())
    title = "Demonstrations left out from some layer on, averaged over tasks,\n"
    title += describe(cutoffs, confidence)
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
            axes.set_ylim(0, 1.03)
            axes.set_xlabel("first layer that sees no more")
            axes.set_ylabel(name)
        legend_below(
            figure,
            *panels[0].get_legend_handles_labels(),
            title="seen from there on; vertical: from where accuracy and label loyalty keep 95 %",
        )
        save(figure, paths)
