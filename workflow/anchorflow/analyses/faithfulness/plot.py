"""How well saliency and attention predict the effect of cutting edges, by class of edges."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from anchorflow.analyses.faithfulness import TRANSPLANTED
from anchorflow.analyses.knockout.plot import NAMES
from anchorflow.present.style import MARKERS, describe, legend_below, save, small_multiples, spread
from anchorflow.statistics.by_task import AVERAGE

_ESTIMATES = {
    "saliency": "saliency |A ⊙ ∂L/∂A|",
    "gradient": "saliency with its sign",
    "integrated": "integrated saliency",
    "gim": "saliency with its sign, GIM",
    "attention": "attention",
}
_LOOKS = (("0", MARKERS[0]), ("1", MARKERS[1]), ("2", MARKERS[2]), ("#009E73", "v"), ("0.55", "D"))
_PANELS = {
    "rank": "rank correlation of absolute\nvalues over layers, per prompt",
    "sign": "share of layers whose change\nhas the predicted sign",
    "slope": "slope of measured on\npredicted change of the loss",
}
_EXPECTED = {"rank": 0.0, "sign": 0.5, "slope": 1.0}  # no relation; chance; correct size


def plot_faithfulness(
    summary: pl.DataFrame,
    style: Mapping[str, Any],
    confidence: float,
    paths: Mapping[str, str | Path],
) -> None:
    """Plot ``FAITHFULNESS_SUMMARY`` for one model, averaged over tasks: a panel per measure.

    The slope is plotted for estimates with a sign only. Gray lines mark the value without any
    relation, and for the slope, that of a correct prediction. Random edges have small hollow marks.
    """
    averaged = summary.filter(pl.col("task") == AVERAGE, pl.col("mean").is_not_null())
    names_of = NAMES | {
        name: f"{place} tokens, from a donor".replace("_", " ")
        for place, name in TRANSPLANTED.items()
    }
    classes = [name for name in names_of if name in set(averaged["edges"])]
    title = "Saliency and attention as predictors of cuts in single layers,\naveraged over tasks, "
    title += describe(summary, confidence, "error bars")
    with small_multiples(style, 1, len(_PANELS), title, share=False) as (figure, (panels,)):
        # The default height has room for four classes.
        figure.set_figheight(figure.get_figheight() + 0.22 * max(0, len(classes) - 4))
        for axes, (measure, name) in zip(panels, _PANELS.items(), strict=True):
            axes.axvline(_EXPECTED[measure], color="0.6", linewidth=0.6, zorder=0)
            for place, (estimate, legend) in enumerate(_ESTIMATES.items()):
                rows = averaged.filter(pl.col("measure") == measure, pl.col("estimate") == estimate)
                if rows.is_empty():
                    continue  # an estimate that was not computed has no place in the legend
                if measure == "slope" and estimate in ("saliency", "attention"):
                    continue
                color, marker = _LOOKS[place]
                color = style["colors"][int(color)] if color in "012" else color
                for control in (True, False):
                    some = rows.filter(pl.col("control") == control)
                    axes.errorbar(
                        some["mean"],
                        [classes.index(name) + 0.16 * (place - 2) for name in some["edges"]],
                        xerr=None if control else spread(some),
                        color=color,
                        marker=marker,
                        markerfacecolor="white" if control else color,
                        markersize=2.5 if control else 4,
                        linestyle="none",
                        elinewidth=0.8,
                        label=None if control else legend,
                    )
            axes.set_xlabel(name)
            names = [names_of[which] for which in classes]
            axes.set_yticks(range(len(classes)), names if axes is panels[0] else [""] * len(names))
            axes.set_ylim(len(classes) - 0.5, -0.5)
            axes.grid(axis="x", linewidth=0.3, color="0.85")
            if measure != "slope":
                axes.set_xlim(-0.6 if measure == "rank" else -0.02, 1.04)
        legend_below(
            figure,
            *panels[0].get_legend_handles_labels(),
            title="small hollow marks: equally many random edges of the same rows",
        )
        save(figure, paths)
