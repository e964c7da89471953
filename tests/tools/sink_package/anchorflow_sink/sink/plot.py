"""Attention to the first tokens by layer, one panel per task."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from anchorflow.present import style as look


def plot_sink(
    summary: pl.DataFrame,
    style: Mapping[str, Any],
    confidence: float,
    paths: Mapping[str, str | Path],
) -> None:
    """A line with its band per task; gray, attention that is spread evenly."""
    tasks = look.tasks_in_order(summary)
    title = "Attention to the first tokens, " + look.describe(summary, confidence)
    with look.small_multiples(style, 1, len(tasks), title, share_y=True) as (figure, (panels,)):
        for panel, task in zip(panels, tasks, strict=True):
            rows = summary.filter(task=task)
            attention, even = (rows.filter(measure=name) for name in ("attention", "even"))
            look.plot_line(panel, attention, style["colors"][0], 0, "first tokens")
            panel.plot(even["layer"], even["mean"], **look.thin(0), label="if spread evenly")
            panel.set_title(task)
            panel.set_xlabel("layer")
        look.name_y(panels, "attention")
        look.legend_below(figure, *panels[0].get_legend_handles_labels())
        look.save(figure, paths)
