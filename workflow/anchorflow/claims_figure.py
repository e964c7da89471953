"""The effects of the papers' claims on one model, a line each, and which of them hold."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from anchorflow.figures import describe, save, small_multiples
from anchorflow.summaries import AVERAGE
from anchorflow.verdicts import INCONCLUSIVE, NOT_SUPPORTED, SUPPORTED

# Verdicts differ by marker and filling too, so that they can be told apart in gray.
_MARKERS = {SUPPORTED: "o", NOT_SUPPORTED: "X", INCONCLUSIVE: "D"}
_UNBOUNDED = ("deep_gain_late", "compression_is_faster")
_LIMITS = ((-1.05, 1.05), (-1.05, 3.05))


def draw_claims(
    claims: pl.DataFrame,
    style: Mapping[str, Any],
    confidence: float,
    paths: Mapping[str, str | Path],
) -> None:
    """Draw ``tables.CLAIMS`` of one model: averages with intervals, and small dots for the tasks.

    Most effects lie between -1 and 1 and share an axis; those that may lie beyond have one below,
    on which a triangle at the edge stands for what lies outside.
    """
    names = claims["claim"].unique(maintain_order=True).to_list()
    bounded = [name for name in names if name not in _UNBOUNDED]
    groups = [bounded, [name for name in names if name in _UNBOUNDED]]
    counted = claims.sort("examples", descending=True, maintain_order=True)
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
                draw_effect(panel, claims.filter(pl.col("claim") == name), place, style)
            _name_lines(panel, claims, group, style)
        panels[1].set_xlabel("effect, in the unit at the right; above 0 where the claim holds")
        figure.legend(handles=legend_of_verdicts(style), loc="outside lower center", ncols=4)
        save(figure, paths)


def draw_effect(axes: Axes, rows: pl.DataFrame, place: int, style: Mapping[str, Any]) -> None:
    """One claim on one model: the average with its interval, and the tasks a little below.

    ``rows`` has columns of ``tables.CLAIMS``; the unit and the verdict stand at the right.
    """
    for effect in rows.filter(pl.col("task") != AVERAGE)["effect"].drop_nulls():
        _draw_point(axes, effect, place + 0.25, ".", {"color": "0.6", "markersize": 3})
    row = rows.row(by_predicate=pl.col("task") == AVERAGE, named=True)
    right = {"transform": axes.get_yaxis_transform(), "fontsize": 0.8 * style["font_size"]}
    axes.text(1.02, place, f"{row['unit']}\n{row['verdict']}", va="center", **right)
    if row["effect"] is None:
        return
    look = _look(row["verdict"], style)
    if row["low"] is not None:
        axes.plot([row["low"], row["high"]], [place] * 2, color=look["color"], linewidth=1)
    _draw_point(axes, row["effect"], place, _MARKERS[row["verdict"]], look)


def _draw_point(
    axes: Axes, effect: float, place: float, marker: str, look: Mapping[str, Any]
) -> None:
    low, high = axes.get_xlim()
    if not low <= effect <= high:
        marker = "<" if effect < low else ">"
    axes.plot(min(max(effect, low), high), place, marker, clip_on=False, **look)


def _look(verdict: str, style: Mapping[str, Any]) -> dict[str, Any]:
    color = style["colors"][list(_MARKERS).index(verdict)]
    face = "white" if verdict == INCONCLUSIVE else color
    return {"color": color, "markerfacecolor": face, "markersize": 5}


def _name_lines(
    axes: Axes, claims: pl.DataFrame, names: Sequence[str], style: Mapping[str, Any]
) -> None:
    """What every line claims and compares, the first on top."""
    told = {
        name: f"{statement}\n{compared}"
        for name, statement, compared in claims.select("claim", "statement", "compared").iter_rows()
    }
    small = 0.8 * style["font_size"]
    axes.set_yticks(range(len(names)), [told[name] for name in names], fontsize=small)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.axvline(0, color="0.6", linewidth=0.6, zorder=0)
    axes.grid(axis="y", linewidth=0.3, color="0.85")


def legend_of_verdicts(style: Mapping[str, Any]) -> list[Line2D]:
    """What the markers of ``draw_effect`` mean."""
    verdicts = [
        Line2D([], [], marker=marker, label=verdict, **_look(verdict, style))
        for verdict, marker in _MARKERS.items()
    ]
    return [*verdicts, Line2D([], [], color="0.6", marker=".", linestyle="none", label="a task")]
