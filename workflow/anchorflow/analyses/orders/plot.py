"""Effects of the order of demonstrations compared with effects of their choice."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from anchorflow.present.style import (
    MARKERS,
    describe,
    legend_below,
    save,
    small_multiples,
    spread,
    tasks_in_order,
)

_PANELS = {
    "spread": "standard deviation\nof accuracies",
    "changed": "share of predictions\nthat differ between\ntwo arrangements",
    "head_changed": "the same for the\nkernel regression\nof the best head",
    "head_agreement": "agreement of\nthis head with\nthe model",
}
_NAMES = {"order": "orders of the same demonstrations", "draw": "fresh draws of demonstrations"}


def plot_orders(
    summary: pl.DataFrame,
    style: Mapping[str, Any],
    confidence: float,
    paths: Mapping[str, str | Path],
) -> None:
    """Plot the table ``orders_summary`` of one model, one line per task and one for the average.

    Each panel has one measure, for several orders and for the same number of fresh draws.
    """
    tasks = tasks_in_order(summary)
    title = "Orders of demonstrations compared with fresh draws,\n"
    title += describe(summary, confidence, "error bars")
    with small_multiples(style, 1, len(_PANELS), title, share=False) as (figure, (panels,)):
        figure.set_figheight(figure.get_figheight() + 0.25 * max(0, len(tasks) - 5))
        for axes, (measure, name) in zip(panels, _PANELS.items(), strict=True):
            for place, (arrangement, legend) in enumerate(_NAMES.items()):
                rows = summary.filter(
                    pl.col("task").is_in(tasks),
                    pl.col("measure") == measure,
                    pl.col("arrangement") == arrangement,
                    pl.col("mean").is_not_null(),
                )
                axes.errorbar(
                    rows["mean"],
                    [tasks.index(task) + 0.2 * (place - 0.5) for task in rows["task"]],
                    xerr=spread(rows),
                    color=style["colors"][place],
                    marker=MARKERS[place],
                    markersize=4,
                    linestyle="none",
                    elinewidth=0.8,
                    label=legend,
                )
            axes.set_xlabel(name)
            axes.set_yticks(range(len(tasks)), tasks if axes is panels[0] else [""] * len(tasks))
            axes.set_ylim(len(tasks) - 0.5, -0.5)
            axes.grid(axis="x", linewidth=0.3, color="0.85")
            if measure != "spread":
                axes.set_xlim(-0.02, 1.04)
            else:
                axes.set_xlim(left=0)
        handles, labels = panels[0].get_legend_handles_labels()
        legend_below(figure, handles, labels)
        save(figure, paths)
