"""Fig. 3 of [A] for any model: the three information flows by layer, and their controls."""

import polars as pl
from matplotlib.axes import Axes

from anchorflow.analyses.flow.summarize import FLOWS, RATIOS, mean_shares
from anchorflow.present import style as look
from anchorflow.present.style import Paths, Style, small_multiples

_FLOWS = {
    "s_wp": "$S_{wp}$: to label words",
    "s_pq": "$S_{pq}$: label words → target",
    "s_ww": "$S_{ww}$: all other pairs",
}
_RATIOS = {
    "target_share_text": "to the target: label words vs. texts",
    "target_share_template": "to the target: label words vs. templates",
    "into_share": "received: label words vs. texts",
}
# From the palette of the default colors, but none of them: ratios must not look like flows.
_RATIO_COLORS = ("#009E73", "#CC79A7", "#E69F00")


def plot_flow(
    summary: pl.DataFrame,
    style: Style,
    confidence: float,
    paths: Paths,
    untrained: pl.DataFrame | None = None,
    gradient: str = "plain",
) -> None:
    """Plot ``FLOW_SUMMARY`` for one model, one column per task.

    Top: shares of the three flows, gray in untrained twins. Bottom: the share of label words in
    what they and other tokens send or receive, per token; 1/2 if they are like any other token.
    """
    tasks = look.tasks_in_order(summary)
    title = "Information flow" + (", GIM's gradient, " if gradient == "gim" else ", ")
    title += look.describe(summary, confidence)
    known = untrained is not None and not untrained.is_empty() and look.with_controls(style)
    twins = mean_shares(untrained) if known and untrained is not None else None
    with small_multiples(style, 2, len(tasks), title, share_y=True) as (figure, (upper, lower)):
        for task, shares, ratios in zip(tasks, upper, lower, strict=True):
            of_task = summary.filter(task=task)
            for order, (flow, color) in enumerate(zip(FLOWS, style["colors"], strict=True)):
                rows = of_task.filter(flow=flow, scale="proportion")
                look.plot_line(shares, rows, color, order, _FLOWS[flow])
            if twins is not None:
                _plot_twins(shares, twins.filter(task=task))
            shares.set_title(task)
            _plot_ratios(ratios, of_task)
            ratios.set_xlabel("layer")
            for panel in (shares, ratios):
                panel.set_ylim(0, 1)
        look.name_y(upper, "share of the\nthree flows")
        look.name_y(lower, "share of\nlabel words")
        look.legend_of(figure, (upper[0], lower[0]), most=2)
        look.save(figure, paths)


def _plot_twins(axes: Axes, twins: pl.DataFrame) -> None:
    """Plot each flow without training, averaged over twins, with the dashes of its line."""
    for flow, dashes in zip(FLOWS, look.DASHES, strict=False):
        line = twins.filter(flow=flow).sort("layer")
        axes.plot(line["layer"], line["mean"], color="0.65", lw=1.0, ls=dashes, zorder=1)
    axes.plot([], [], color="0.65", lw=1.0, label="gray: the same flow without training")


def _plot_ratios(axes: Axes, rows: pl.DataFrame) -> None:
    for order, (ratio, color) in enumerate(zip(RATIOS, _RATIO_COLORS, strict=True)):
        look.plot_line(axes, rows.filter(flow=ratio), color, order, _RATIOS[ratio])
    axes.axhline(0.5, color="0.6", linewidth=0.6, zorder=0, label="1/2: no difference")
