"""Fig. 5 of [A] for any model: how well label-word attention predicts the answer, by layer."""

import polars as pl
from matplotlib.axes import Axes

from anchorflow.analyses.attention.summarize import mean_graded
from anchorflow.present import style as look
from anchorflow.present.style import Paths, Style, small_multiples

_LIMITS = (-0.5, 1.5)  # R_l leaves [0, 1] a little where single layers are below chance


def plot_attention(
    summary: pl.DataFrame,
    style: Style,
    confidence: float,
    paths: Paths,
    untrained: pl.DataFrame | None = None,
    untrained_predictions: pl.DataFrame | None = None,
) -> None:
    """Plot ``ATTENTION_SUMMARY`` for one model: AUCROC_l, R_l, and graded, one column per task.

    Beside label words, in gray, are the demonstrations' other tokens, and label words without
    training. What is graded takes labels' probabilities in place of the answer, and is what claims
    are about.

    R_l is a share of the sum of AUCROC_l - 0.5 over layers, and is left out where that is near 0.
    """
    twins = pl.DataFrame(schema=["task", "layer", "mean"])
    if look.with_controls(style) and untrained is not None and untrained_predictions is not None:
        known = not untrained.is_empty()
        twins = mean_graded(untrained, untrained_predictions) if known else twins
    tasks = look.tasks_in_order(summary)
    title = "Label-word attention as a predictor, " + look.describe(summary, confidence)
    with small_multiples(style, 3, len(tasks), title, share_y=True) as (figure, axes):
        for task, aucs, shares, graded in zip(tasks, *axes, strict=True):
            rows = summary.filter(task=task)
            for panel, measure in ((aucs, "auc"), (graded, "graded")):
                if look.with_controls(style):
                    others = rows.filter(measure=f"{measure}_other")
                    look.plot_line(panel, others, "0.45", 2, "other tokens")
                look.plot_line(
                    panel, rows.filter(measure=measure), style["colors"][0], 0, "label words"
                )
                look.plot_chance(panel, 0.5)
                panel.set_ylim(0, 1)
            for line in twins.filter(task=task).sort("layer").partition_by("task"):
                graded.plot(
                    line["layer"], line["mean"], color="0.65", lw=1.0, label="without training"
                )
            aucs.set_title(task)
            _plot_shares(shares, rows.filter(measure="cumulative"), style["colors"][1])
            graded.set_xlabel("layer")
        look.name_y(axes[0], "AUCROC$_l$")
        look.name_y(axes[1], "$R_l$: share of\nall layers' excess")
        look.name_y(axes[2], "AUCROC$_l$, graded by\nlabels' probabilities")
        look.legend_of(figure, [panel for row in axes for panel in row])
        look.save(figure, paths)


def _plot_shares(axes: Axes, rows: pl.DataFrame, color: str) -> None:
    axes.set_ylim(*_LIMITS)
    for end in (0, 1):
        axes.axhline(end, color="0.6", linewidth=0.6, zorder=0)
    if rows["mean"].is_between(*_LIMITS).all():
        look.plot_line(axes, rows, color, 1, "$R_l$")
    else:
        reason = "not defined:\nAUCROC$_l$ is about\n0.5 on average"
        axes.text(0.5, 0.5, reason, transform=axes.transAxes, ha="center", va="center")
