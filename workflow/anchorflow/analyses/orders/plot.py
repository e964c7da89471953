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
    tasks_in_order,
)

_PANELS = {
    "spread": "accuracy: standard deviation",
    "changed": "share of predictions differing\nbetween two arrangements",
    "head_changed": "the same for the best head's\nkernel regression, held out",
    "head_agreement": "agreement of this head\nwith the model",
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
                    xerr=[
                        (rows["mean"] - rows["low"]).clip(0),
                        (rows["high"] - rows["mean"]).clip(0),
                    ],
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
