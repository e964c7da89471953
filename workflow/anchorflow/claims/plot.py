"""The effects of the papers' claims for one model, one line each, with verdicts."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from anchorflow.claims.summarize import load_claims
from anchorflow.claims.verdicts import INCONCLUSIVE, NOT_SUPPORTED, NOT_TESTED, SUPPORTED
from anchorflow.present.style import describe, save, small_multiples
from anchorflow.statistics.by_task import AVERAGE

# Verdicts also differ by marker and fill, so that they can be distinguished in grayscale.
_MARKERS = {SUPPORTED: "o", NOT_SUPPORTED: "X", INCONCLUSIVE: "D", NOT_TESTED: "s"}
_AGAINST = {"control": ("control_effect", "|"), "untrained network": ("null_effect", "x")}
_LIMITS = ((-1.05, 1.05), (-1.05, 3.05))  # of bounded and unbounded effects; few exceed 3


def plot_claims(
    summary: pl.DataFrame,
    style: Mapping[str, Any],
    confidence: float,
    paths: Mapping[str, str | Path],
) -> None:
    """Plot the table ``claims`` of one model: averages with intervals, small dots for tasks.

    Bounded effects lie between -1 and 1 and share an axis. The others have an axis below, on which
    a triangle at the edge marks a value outside.
    """
    names = summary["claim"].unique(maintain_order=True).to_list()
    unbounded = {claim.name for claim in load_claims() if not claim.bounded}
    groups = [
        [name for name in names if name not in unbounded],
        [name for name in names if name in unbounded],
    ]
    # The title counts the examples of the claim that has most.
    counted = summary.sort("examples", descending=True, maintain_order=True)
    title = (
        f"Which claims hold, averaged over tasks,\n{describe(counted, confidence, 'error bars')}"
    )
    with small_multiples(style, 2, 1, title, share=False) as (figure, axes):
        line = 3.4 * style["font_size"] / 72  # inches
        figure.set_size_inches(3.4 * style["panel_width"], (len(names) + 5) * line)
        panels = [row[0] for row in axes]
        grid = panels[0].get_gridspec()
        assert grid is not None
        grid.set_height_ratios([len(group) for group in groups])
        for panel, group, limits in zip(panels, groups, _LIMITS, strict=True):
            panel.set_xlim(*limits)
            for place, name in enumerate(group):
                plot_effect(panel, summary.filter(pl.col("claim") == name), place, style)
            _name_lines(panel, summary, group, style)
        panels[1].set_xlabel("effect, in the unit at the right; above 0 where the claim holds")
        figure.legend(handles=legend_of_verdicts(style), loc="outside lower center", ncols=4)
        save(figure, paths)


def plot_effect(axes: Axes, rows: pl.DataFrame, place: int, style: Mapping[str, Any]) -> None:
    """Plot one claim for one model: the average with its interval, and tasks slightly below.

    ``rows`` has columns of the table ``claims``; unit and verdict are printed at the right.
    """
    for effect in rows.filter(pl.col("task") != AVERAGE)["effect"].drop_nulls():
        _plot_point(axes, effect, place + 0.25, ".", {"color": "0.6", "markersize": 3})
    row = rows.row(by_predicate=pl.col("task") == AVERAGE, named=True)
    right = {"transform": axes.get_yaxis_transform(), "fontsize": 0.8 * style["font_size"]}
    axes.text(1.02, place, f"{row['unit']}\n{row['verdict']}", va="center", **right)
    if row["effect"] is None:
        return
    look = _look(row["verdict"], style)
    if row["low"] is not None:
        axes.plot([row["low"], row["high"]], [place] * 2, color=look["color"], linewidth=1)
    _plot_point(axes, row["effect"], place, _MARKERS[row["verdict"]], look)
    for column, marker in _AGAINST.values():
        if row[column] is not None:
            _plot_point(axes, row[column], place, marker, _AGAINST_LOOK)


def _plot_point(
    axes: Axes, effect: float, place: float, marker: str, look: Mapping[str, Any]
) -> None:
    low, high = axes.get_xlim()
    if not low <= effect <= high:
        marker = "<" if effect < low else ">"
    axes.plot(min(max(effect, low), high), place, marker, clip_on=False, **look)


_AGAINST_LOOK: dict[str, Any] = {"color": "0.2", "markersize": 5, "markeredgewidth": 0.9}


def _look(verdict: str, style: Mapping[str, Any]) -> dict[str, Any]:
    known = verdict != NOT_TESTED
    color = style["colors"][list(_MARKERS).index(verdict)] if known else "0.5"
    face = "white" if verdict in (INCONCLUSIVE, NOT_TESTED) else color
    return {"color": color, "markerfacecolor": face, "markersize": 5}


def _name_lines(
    axes: Axes, claims: pl.DataFrame, names: Sequence[str], style: Mapping[str, Any]
) -> None:
    """Label every line with its statement, the first on top; the table states the comparison."""
    statements = dict(claims.select("claim", "statement").iter_rows())
    small = 0.8 * style["font_size"]
    lines = [fill(statements[name], 56) for name in names]
    axes.set_yticks(range(len(names)), lines, fontsize=small)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.axvline(0, color="0.6", linewidth=0.6, zorder=0)
    axes.grid(axis="y", linewidth=0.3, color="0.85")


def legend_of_verdicts(style: Mapping[str, Any]) -> list[Line2D]:
    """Legend entries for the markers of ``plot_effect``."""
    verdicts = [
        Line2D([], [], marker=marker, label=verdict, **_look(verdict, style))
        for verdict, marker in _MARKERS.items()
    ]
    against = [
        Line2D([], [], marker=marker, linestyle="none", label=label, **_AGAINST_LOOK)
        for label, (_, marker) in _AGAINST.items()
    ]
    return [
        *verdicts,
        *against,
        Line2D([], [], color="0.6", marker=".", linestyle="none", label="a task"),
    ]
