"""Fig. 5 of [A] for any model: how well label-word attention predicts the answer, by layer."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.axes import Axes

from anchorflow.present.style import (
    describe,
    legend_below,
    legend_entries,
    name_y,
    plot_chance,
    plot_line,
    save,
    small_multiples,
    tasks_in_order,
    with_controls,
)

_LIMITS = (-0.5, 1.5)  # R_l leaves [0, 1] a little where single layers are below chance


def plot_attention(
    summary: pl.DataFrame,
    style: Mapping[str, Any],
    confidence: float,
    paths: Mapping[str, str | Path],
) -> None:
    """Plot ``ATTENTION_SUMMARY`` for one model: AUCROC_l above R_l, one column per task.

    Below AUCROC_l of label words, in gray, is that of the demonstrations' other tokens.

    R_l is a share of the sum of AUCROC_l - 0.5 over layers, and is left out where that is near 0.
    """
    tasks = tasks_in_order(summary)
    title = "Label-word attention as a predictor, " + describe(summary, confidence)
    with small_multiples(style, 2, len(tasks), title, share_y=True) as (figure, (upper, lower)):
        for task, aucs, shares in zip(tasks, upper, lower, strict=True):
            rows = summary.filter(task=task)
            if with_controls(style):
                others = rows.filter(measure="auc_other")
                plot_line(aucs, others, "0.45", 2, "AUCROC$_l$ of other tokens")
            plot_line(aucs, rows.filter(measure="auc"), style["colors"][0], 0, "AUCROC$_l$")
            plot_chance(aucs, 0.5)
            aucs.set_ylim(0, 1)
            aucs.set_title(task)
            _plot_shares(shares, rows.filter(measure="cumulative"), style["colors"][1])
            shares.set_xlabel("layer")
        name_y(upper, "AUCROC$_l$")
        name_y(lower, "$R_l$: share of\nall layers' excess")
        handle_of = legend_entries([*upper, *lower])
        legend_below(figure, handle_of.values(), handle_of)
        save(figure, paths)


def _plot_shares(axes: Axes, rows: pl.DataFrame, color: str) -> None:
    axes.set_ylim(*_LIMITS)
    for end in (0, 1):
        axes.axhline(end, color="0.6", linewidth=0.6, zorder=0)
    if rows["mean"].is_between(*_LIMITS).all():
        plot_line(axes, rows, color, 1, "$R_l$")
    else:
        reason = "not defined:\nAUCROC$_l$ is about\n0.5 on average"
        axes.text(0.5, 0.5, reason, transform=axes.transAxes, ha="center", va="center")
