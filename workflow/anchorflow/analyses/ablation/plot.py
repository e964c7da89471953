"""Accuracy, and answers that are label words, as heads are taken away."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from anchorflow.analyses.heads.plot import name_of
from anchorflow.present.style import (
    describe,
    legend_below,
    legend_entries,
    name_y,
    plot_line,
    save,
    small_multiples,
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
    title = f"Heads taken away ({where}, {by}), " + describe(summary, confidence)
    with small_multiples(style, len(_MEASURES), len(scores), title, share_y=True) as (figure, axes):
        for (measure, name), row in zip(_MEASURES.items(), axes, strict=True):
            intact = averaged.filter(score="none", measure=measure)["mean"].item()
            for score, panel in zip(scores, row, strict=True):
                rows = taken.filter(score=score, measure=measure)
                plot_line(panel, rows.filter(control=False), style["colors"][0], 0, _TAKEN, "share")
                drawn = rows.filter(control=True).sort("share")
                panel.fill_between(
                    drawn["share"], drawn["low"], drawn["high"], color="0.4", alpha=0.15, lw=0
                )
                panel.plot(drawn["share"], drawn["mean"], **thin(1), label=_RANDOM)
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
