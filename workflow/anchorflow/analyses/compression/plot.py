"""Loyalty and accuracy of compressed demonstrations, by method and by the share that is kept."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.axes import Axes

from anchorflow.analyses.compression.styles import LOOKS
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

    Top: every method at the number of anchors, or at its own number of tokens. Bottom: methods that
    can keep any share, over that share, compared with everything kept and with the anchors.
    """
    averaged = summary.filter(pl.col("task") == AVERAGE)
    fixed = averaged.filter(pl.col("share").is_null())
    kept = averaged.filter(pl.col("measure") == "kept_share").select(
        "method", "share", pl.col("mean").alias("kept")
    )
    swept = averaged.filter(pl.col("share").is_not_null())["method"].unique()
    compared = averaged.join(
        kept, on=["method", "share"], nulls_equal=True, maintain_order="left"
    ).filter(pl.col("method").is_in([*swept, "full", "hidden_anchor"]))
    title = "Compressed demonstrations, averaged over tasks,\n"
    title += describe(summary, confidence, "error bars")
    with small_multiples(style, 1 if swept.is_empty() else 2, len(_AXES), title, share=False) as (
        figure,
        axes,
    ):
        for column, (measure, name) in enumerate(_AXES.items()):
            _plot_list(axes[0][column], fixed.filter(pl.col("measure") == measure), column == 0)
            axes[0][column].set_title(name)
            if swept.is_empty():
                continue
            _plot_sweep(axes[1][column], compared.filter(pl.col("measure") == measure))
            axes[1][column].set_title(name)
        more = max(0.0, fixed["method"].n_unique() / _LISTED - 1)
        figure.set_figheight(figure.get_figheight() * (1 + more / len(axes)))
        grid = axes[0][0].get_gridspec()
        assert grid is not None
        grid.set_height_ratios([1 + more, *(1 for _ in axes[1:])])
        for row, vertical in zip(axes, (True, False), strict=False):
            plot_chance(row[-1], chance_levels(labels)[AVERAGE], vertical)
        handle_of = legend_entries(row[-1] for row in reversed(axes))
        legend_below(figure, handle_of.values(), handle_of)
        save(figure, paths)


def _plot_list(axes: Axes, rows: pl.DataFrame, named: bool) -> None:
    """Plot the mean and interval of every method, the first method on top."""
    methods = [method for method in LOOKS if method in rows["method"]]
    for place, method in enumerate(methods):
        row, look = rows.filter(pl.col("method") == method), LOOKS[method]
        axes.errorbar(row["mean"], [place], xerr=spread(row), **look.marks, elinewidth=0.7)
    axes.set_yticks(range(len(methods)), [LOOKS[m].name if named else "" for m in methods])
    axes.set_ylim(len(methods) - 0.5, -0.5)
    # What is retained is below 0 where probabilities are farther off than without demonstrations.
    axes.set_xlim(lowest(rows), 1.04)
    axes.grid(axis="y", linewidth=0.3, color="0.85")


def _plot_sweep(axes: Axes, rows: pl.DataFrame) -> None:
    for method, look in LOOKS.items():
        line = rows.filter(pl.col("method") == method).sort("kept")
        if line.is_empty():
            continue
        axes.errorbar(
            line["kept"],
            line["mean"],
            yerr=spread(line),
            **look.marks,
            linestyle="-" if len(line) > 1 else "none",
            elinewidth=0.5,
            linewidth=0.8,
            label=look.name,
        )
    axes.set_xlabel("share of the\ndemonstrations kept")
    axes.set_xlim(0, 1.04)
    axes.set_ylim(lowest(rows), 1.04)
