"""Fig. 4 of [A] for any model: loyalty when label words or other tokens are isolated."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.axes import Axes

from anchorflow.present.style import (
    BAR,
    DASHES,
    MARKERS,
    chance_levels,
    describe,
    legend_below,
    legend_entries,
    lowest,
    plot_bars,
    plot_chance,
    save,
    small_multiples,
    spread,
    thin,
)
from anchorflow.statistics.by_task import AVERAGE

_AXES = {
    "label_loyalty": "label loyalty",
    "word_loyalty": "word loyalty",
    "accuracy": "accuracy",
    "retained": "demonstrations' effect\nretained",
}
_POSITIONS = {"label": "label words", "random": "random tokens"}
_BESIDE = {"before": "token before", "after": "token after", "text": "text tokens"}
_HIDDEN: Any = {"color": "black", "linestyle": (0, (1, 1)), "linewidth": 1}
_HIDDEN["label"] = "without demonstrations"
_SIDES = ("first", "last")
_LAYERS = 5  # as in [A]; bars show the nearest number of layers that was run


def plot_isolation(
    summary: pl.DataFrame,
    labels: Mapping[str, Sequence[str]],
    style: Mapping[str, Any],
    confidence: float,
    paths: Mapping[str, str | Path],
) -> None:
    """Plot ``ISOLATION_SUMMARY`` for one model: bars as in [A], and lines over numbers of layers.

    Lines across the bars are the neighbors of label words, and tokens of the texts. With a single
    number of layers, there are only bars.
    """
    averaged = summary.filter(task=AVERAGE)
    variants = [*dict.fromkeys(averaged["variant"].to_list())]
    variants = [name for name in variants if name != "none"]  # of the run without demonstrations
    swept = averaged.filter(pl.col("layers") > 0)["layers"].n_unique() > 1
    height = 2 if swept else 1
    title = "Isolation, averaged over tasks, " + describe(summary, confidence, "error bars")
    with small_multiples(style, height * len(variants), len(_AXES), title, share=False) as (
        fig,
        axes,
    ):
        for order, variant in enumerate(variants):
            for column, (measure, name) in enumerate(_AXES.items()):
                rows = averaged.filter(variant=variant, measure=measure)
                panels = [row[column] for row in axes[height * order :][:height]]
                _plot_bars(panels[0], rows, style["colors"])
                panels[0].set_title(f"{name},\n{variant}" if len(variants) > 1 else name)
                if measure != "retained":  # without demonstrations, nothing is
                    for hidden in averaged.filter(positions="hidden", measure=measure)["mean"]:
                        panels[0].axhline(hidden, **_HIDDEN)
                if swept:
                    _plot_sweep(panels[1], rows, style["colors"])
                for panel in panels:
                    panel.set_ylim(lowest(rows), 1.03)
                    if measure == "accuracy":
                        plot_chance(panel, chance_levels(labels)[AVERAGE])
        of_accuracy = list(_AXES).index("accuracy")
        handle_of = legend_entries(row[of_accuracy] for row in axes[:height])
        legend_below(fig, handle_of.values(), handle_of)
        save(fig, paths)


def _beside(rows: pl.DataFrame) -> dict[str, str]:
    """Those of the positions in ``_BESIDE`` that were isolated, with their names."""
    present = set(rows["positions"])
    return {positions: name for positions, name in _BESIDE.items() if positions in present}


def _plot_bars(axes: Axes, rows: pl.DataFrame, colors: list[str]) -> None:
    nearest = min(rows["layers"].unique().sort(), key=lambda layers: abs(layers - _LAYERS))
    chosen = rows.filter(layers=nearest).sort(pl.col("side").cast(pl.Enum(_SIDES)))
    for order, (positions, name) in enumerate(_POSITIONS.items()):
        places = [place + 0.4 * order - 0.2 for place in range(len(_SIDES))]
        plot_bars(axes, chosen.filter(positions=positions), places, order, colors[order], name)
    for order, (positions, name) in enumerate(_beside(rows).items()):
        of_positions = chosen.filter(positions=positions)
        for place, mean in enumerate(of_positions["mean"]):
            ends = [place - 0.2 - BAR / 2, place + 0.2 + BAR / 2]
            axes.plot(ends, [mean, mean], **thin(order), label="" if place else name)
        look: Any = {"ecolor": "#404040", "elinewidth": 0.6, "capsize": 1.5, "linestyle": "none"}
        at = [place + 0.43 + 0.04 * order for place in range(len(of_positions))]  # beside the bars
        axes.errorbar(at, of_positions["mean"], yerr=spread(of_positions), **look)
    axes.set_xticks(range(len(_SIDES)), [f"{side} {nearest}\nlayers" for side in _SIDES])


def _plot_sweep(axes: Axes, rows: pl.DataFrame, colors: list[str]) -> None:
    for order, (positions, name) in enumerate(_POSITIONS.items()):
        for place, side in enumerate(_SIDES):
            line = rows.filter(positions=positions, side=side).sort("layers")
            axes.errorbar(
                line["layers"] + 0.12 * (2 * order + place - 1.5),  # keeps intervals apart
                line["mean"],
                yerr=spread(line),
                color=colors[order],
                linestyle=DASHES[place],
                marker=MARKERS[2 * order],
                markerfacecolor=colors[order] if place == 0 else "white",
                elinewidth=0.7,
                label=f"{name}, {side} layers",
            )
    axes.set_xticks(rows["layers"].unique().sort())
    axes.set_xlabel("isolated layers")
