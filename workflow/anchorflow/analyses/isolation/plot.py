"""Fig. 4 of [A] for any model: loyalty when label words or other tokens are isolated."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.axes import Axes

from anchorflow.present.style import (
    DASHES,
    MARKERS,
    describe,
    legend_below,
    save,
    small_multiples,
    thin,
)
from anchorflow.statistics.by_task import AVERAGE

_AXES = {
    "label_loyalty": "label loyalty",
    "word_loyalty": "word loyalty",
    "accuracy": "accuracy",
    "divergence": "divergence (nats)",
}
_POSITIONS = {"label": "label words", "random": "random tokens"}
_BESIDE = {"before": "token before", "after": "token after", "text": "text tokens"}
_SIDES = ("first", "last")
_HATCHES = ("", "////")
_LAYERS = 5  # as in [A]; bars show the nearest number of layers that was run


def plot_isolation(
    summary: pl.DataFrame,
    style: Mapping[str, Any],
    confidence: float,
    paths: Mapping[str, str | Path],
) -> None:
    """Plot ``ISOLATION_SUMMARY`` for one model: bars as in [A], and lines over numbers of layers.

    The neighbors of label words and tokens of the texts are thin lines, across the bars at their
    value and over the layers. With a single number of layers, there are only bars.
    """
    averaged = summary.filter(pl.col("task") == AVERAGE)
    variants = averaged["variant"].unique(maintain_order=True).to_list()
    swept = averaged.filter(pl.col("layers") > 0)["layers"].n_unique() > 1
    height = 2 if swept else 1
    title = "Isolation, averaged over tasks, " + describe(summary, confidence, "error bars")
    with small_multiples(style, height * len(variants), len(_AXES), title, share=False) as (
        fig,
        axes,
    ):
        for order, variant in enumerate(variants):
            for column, (measure, name) in enumerate(_AXES.items()):
                rows = averaged.filter(pl.col("variant") == variant, pl.col("measure") == measure)
                bars = axes[height * order][column]
                _plot_bars(bars, rows, style["colors"])
                bars.set_title(f"{name} ({variant})" if len(variants) > 1 else name)
                panels = [bars]
                if swept:
                    panels.append(axes[height * order + 1][column])
                    _plot_sweep(panels[1], rows, style["colors"])
                for panel in panels:
                    panel.set_ylim(bottom=0, top=None if measure == "divergence" else 1.03)
                    panel.set_ylabel(name)
        lowest = [axes[0][0], axes[1][0]] if swept else [axes[0][0]]
        named = [
            entry
            for panel in lowest
            for entry in zip(*panel.get_legend_handles_labels(), strict=True)
        ]
        # Thin lines, which only the bars' panel names, come last in the legend.
        named.sort(key=lambda entry: entry[1] in _BESIDE.values())
        handles, names = zip(*named, strict=True)
        legend_below(fig, handles, names, 3 if swept else len(names))
        save(fig, paths)


def _beside(rows: pl.DataFrame) -> dict[str, str]:
    """Those of the positions in ``_BESIDE`` that were isolated, with their names."""
    present = set(rows["positions"])
    return {positions: name for positions, name in _BESIDE.items() if positions in present}


def _plot_bars(axes: Axes, rows: pl.DataFrame, colors: list[str]) -> None:
    nearest = min(rows["layers"].unique().sort(), key=lambda layers: abs(layers - _LAYERS))
    chosen = rows.filter(pl.col("layers") == nearest)
    for place, side in enumerate(_SIDES):
        here = chosen.filter(pl.col("side") == side)
        for order, (positions, name) in enumerate(_POSITIONS.items()):
            row = here.filter(pl.col("positions") == positions)
            mean, low, high = row.select("mean", "low", "high").row(0)
            axes.bar(
                place + 0.4 * order - 0.2,
                mean,
                0.36,
                yerr=[[max(0, mean - low)], [max(0, high - mean)]],
                color=colors[order],
                hatch=_HATCHES[order],
                edgecolor="white",
                linewidth=0,
                error_kw={"elinewidth": 0.8, "capsize": 2},
                label=name if place == 0 else None,
            )
        for order, (positions, name) in enumerate(_beside(rows).items()):
            (mean,) = here.filter(pl.col("positions") == positions)["mean"]
            axes.plot(
                [place - 0.42, place + 0.42],
                [mean, mean],
                **thin(order),
                label=name if place == 0 else None,
            )
    axes.set_xticks(range(len(_SIDES)), [f"{side} {nearest} layers" for side in _SIDES])


def _plot_sweep(axes: Axes, rows: pl.DataFrame, colors: list[str]) -> None:
    for order, (positions, name) in enumerate(_POSITIONS.items()):
        for place, side in enumerate(_SIDES):
            line = rows.filter(pl.col("positions") == positions, pl.col("side") == side)
            line = line.sort("layers")
            axes.errorbar(
                line["layers"] + 0.12 * (2 * order + place - 1.5),  # keeps intervals apart
                line["mean"],
                yerr=[
                    (line["mean"] - line["low"]).clip(0),
                    (line["high"] - line["mean"]).clip(0),
                ],
                color=colors[order],
                linestyle=DASHES[place],
                marker=MARKERS[2 * order],
                markerfacecolor=colors[order] if place == 0 else "white",
                elinewidth=0.7,
                label=f"{name}, {side} layers",
            )
    for order, positions in enumerate(_beside(rows)):
        for side, marker in zip(_SIDES, ("", "x"), strict=True):
            line = rows.filter(pl.col("positions") == positions, pl.col("side") == side)
            line = line.sort("layers")
            axes.plot(line["layers"], line["mean"], **thin(order), marker=marker)
    axes.set_xticks(rows["layers"].unique().sort())
    axes.set_xlabel("isolated layers")
