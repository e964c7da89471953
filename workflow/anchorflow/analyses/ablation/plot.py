"""Accuracy, and answers that are label words, as heads are taken away."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.axes import Axes

from anchorflow.analyses.heads.plot import name_of
from anchorflow.present.style import (
    describe,
    legend_below,
    legend_entries,
    name_y,
    plot_line,
    save,
    small_multiples,
    spread,
    thin,
)
from anchorflow.statistics.by_task import AVERAGE

_MEASURES = {"accuracy": "accuracy", "in_labels": "answers that\nare label words"}
_TAKEN, _RANDOM, _INTACT = "these heads", "random heads of the same layers", "intact"


def plot_ablation(
    summary: pl.DataFrame,
    style: Mapping[str, Any],
    confidence: float,
    paths: Mapping[str, str | Path],
) -> None:
    """Plot ``ABLATION_SUMMARY`` for one model, averaged over tasks, one column per score.

    Heads are replaced at the target, by the first of the listed replacements.
    """
    averaged = summary.filter(pl.col("task") == AVERAGE)
    taken = averaged.filter(pl.col("share").is_not_null(), pl.col("where") != "none")
    where, by = taken.sort("where", descending=True).row(0, named=True)["where"], taken["by"][0]
    taken = taken.filter(where=where, by=by)
    scores = taken["score"].unique(maintain_order=True).to_list()
    alone = taken["share"].n_unique() == 1  # lines need two
    title = f"Heads taken away ({where}, {by}),\n"
    title += describe(summary, confidence, "error bars" if alone else "bands")
    with small_multiples(style, len(_MEASURES), len(scores), title, share_y=True) as (figure, axes):
        for (measure, name), row in zip(_MEASURES.items(), axes, strict=True):
            intact = averaged.filter(score="none", measure=measure)["mean"].item()
            for score, panel in zip(scores, row, strict=True):
                rows = taken.filter(score=score, measure=measure)
                heads, drawn = (
                    rows.filter(control=control).sort("share") for control in (False, True)
                )
                plot = _plot_points if alone else _plot_lines
                plot(panel, heads, drawn, style["colors"][0])
                panel.axhline(intact, color="0.6", lw=0.8, ls=":", label=_INTACT)
                panel.set_xscale("log")
                panel.set_xticks(
                    sorted(set(rows["share"])), [f"{s:.0%}" for s in sorted(set(rows["share"]))]
                )
                panel.minorticks_off()
                panel.set_ylim(0, 1)
                panel.set_title(name_of(score))
            name_y(row, name)
        for panel in axes[-1]:
            panel.set_xlabel("heads taken away")
        handle_of = legend_entries([panel for row in axes for panel in row])
        legend_below(figure, handle_of.values(), handle_of)
        save(figure, paths)


def _plot_lines(axes: Axes, taken: pl.DataFrame, drawn: pl.DataFrame, color: str) -> None:
    plot_line(axes, taken, color, 0, _TAKEN, "share")
    axes.fill_between(drawn["share"], drawn["low"], drawn["high"], color="0.4", alpha=0.15, lw=0)
    axes.plot(drawn["share"], drawn["mean"], **thin(1), label=_RANDOM)


def _plot_points(axes: Axes, taken: pl.DataFrame, drawn: pl.DataFrame, color: str) -> None:
    """Marks with error bars side by side, of a single share."""
    for rows, look, marker, factor, name in (
        (taken, color, "o", 0.94, _TAKEN),
        (drawn, "0.4", "s", 1.06, _RANDOM),
    ):
        axes.errorbar(
            rows["share"] * factor, rows["mean"], yerr=spread(rows), color=look, marker=marker,
            linestyle="none", elinewidth=0.8, capsize=2, label=name,
        )  # fmt: skip
    (share,) = set(taken["share"])
    axes.set_xlim(share / 1.6, share * 1.6)
