"""The effects of the papers' claims for one model, one line each, with marks and verdicts."""

from collections.abc import Mapping
from pathlib import Path
from textwrap import fill
from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from anchorflow.claims.verdicts import (
    MIXED,
    NOT_COMPARED,
    NOT_MEASURED,
    NOT_SUPPORTED,
    SIGNS_EXPLAINED,
    SUPPORTED,
    UNDECIDED,
    UNTRAINED_TOO,
    VERDICTS,
    measured_on,
    signs_of,
)
from anchorflow.present.style import PAGE, legend_below, save, small_multiples
from anchorflow.statistics.by_task import AVERAGE

# Verdicts also differ by marker and fill, so that they can be distinguished in grayscale.
MARKERS = {
    SUPPORTED: "o",
    UNTRAINED_TOO: "P",
    MIXED: "X",
    NOT_SUPPORTED: "s",
    UNDECIDED: "D",
    NOT_COMPARED: "v",
}
_AGAINST = {"control": ("control_effect", "|"), "untrained network": ("null_effect", "x")}
_COLORED = (SUPPORTED, NOT_SUPPORTED)  # others are gray
_HEAD = "effect, control, null"
_LIMITS = (-1.05, 1.05)  # of shares and their differences; arrows stand for what is beyond
OTHER_UNITS = {"nats": "nats", "time with hidden_anchor": "ratio of times, minus 1"}


def plot_claims(
    summary: pl.DataFrame,
    style: Mapping[str, Any],
    confidence: float,
    paths: Mapping[str, str | Path],
) -> None:
    """Plot the claims of the table ``claims`` that answer a question, of one model.

    Supported ones come first; measured ones in other units than shares have axes of their own
    below. Averages have intervals, and small dots are tasks; an arrow at the edge marks what lies
    outside. Claims that were not measured are only listed.
    """
    asked = summary.filter(pl.col("question").is_not_null())
    average = asked.filter(pl.col("task") == AVERAGE)
    order = pl.col("verdict").replace_strict({name: n for n, name in enumerate(VERDICTS)})
    measured = average.filter(pl.col("verdict") != NOT_MEASURED)
    ordered = average.sort(order, maintain_order=True).with_columns(
        of=pl.when(pl.col("verdict") == NOT_MEASURED)
        .then(pl.lit("share"))
        .otherwise(pl.col("unit").replace_strict(OTHER_UNITS, default="share"))
    )
    panels = {of: ordered.filter(of=of) for of in ("share", *OTHER_UNITS.values())}
    panels = {of: rows for of, rows in panels.items() if not rows.is_empty()}
    title = (
        f"Which claims hold, averaged over {summary['task'].n_unique() - 1} tasks,\n"
        f"{summary['model'][0]}; error bars are {confidence:.0%} intervals"
    )
    with small_multiples(style, len(panels), 1, title, share=False) as (figure, axes):
        line = 3.6 * style["font_size"] / 72  # inches
        lines = [len(rows) + 0.5 * (of == "share") for of, rows in panels.items()]
        height = (sum(lines) + 3 + 1.7 * len(panels)) * line
        figure.set_size_inches(min(PAGE, style.get("width", PAGE)), height)
        grid = axes[0][0].get_gridspec()
        assert grid is not None  # of subplots
        grid.set_height_ratios(lines)
        for (of, rows), (panel,) in zip(panels.items(), axes, strict=True):
            _plot_panel(panel, asked, rows, of, style)
        explained = fill(SIGNS_EXPLAINED, round(90 * _narrow(style)))
        axes[-1][0].set_xlabel(f"{axes[-1][0].get_xlabel()}\n{explained}")
        handles = legend_of_verdicts(style, measured["verdict"].unique().to_list())
        legend_below(figure, handles, [str(handle.get_label()) for handle in handles], 4)
        save(figure, paths)


def _plot_panel(
    axes: Axes, asked: pl.DataFrame, rows: pl.DataFrame, of: str, style: Mapping[str, Any]
) -> None:
    """The claims of one unit, whose averages are ``rows``, in their order."""
    if of == "share":
        axes.set_xlim(*_LIMITS)
    else:
        ends = pl.concat([rows[name] for name in ("effect", "low", "high")]).drop_nulls()
        reach = 1.15 * max([0.1, *ends.abs()])
        axes.set_xlim(-reach, reach)
    for place, name in enumerate(rows["claim"]):
        plot_effect(axes, asked.filter(pl.col("claim") == name), place, style)
    narrow = _narrow(style)
    size = style["font_size"] * narrow
    lines = [fill(question, round(42 * narrow)) for question in rows["question"]]
    axes.set_yticks(range(len(rows)), lines, fontsize=0.85 * size)
    axes.set_ylim(len(rows) - 0.5, -1 if of == "share" else -0.5)
    _name_right(axes, rows.rows(named=True), 0.8 * size, of == "share")
    axes.axvline(0, color="0.6", linewidth=0.6, zorder=0)
    axes.grid(axis="y", linewidth=0.3, color="0.85")
    unit = "share or difference of shares" if of == "share" else of
    named = f"effect ({unit}), above 0 where the answer is yes"
    axes.set_xlabel(fill(named, round(80 * narrow)), fontsize=max(size, 0.8 * style["font_size"]))


def _narrow(style: Mapping[str, Any]) -> float:
    """By how much names beside axes are smaller where a page's size would leave these no room."""
    return max(0.6, min(1.0, float(style.get("width", PAGE)) / PAGE))


def plot_effect(axes: Axes, rows: pl.DataFrame, place: int, style: Mapping[str, Any]) -> None:
    """Plot one claim for one model: the average with its interval, and tasks slightly below.

    ``rows`` has columns of the table ``claims``.
    """
    row = rows.row(by_predicate=pl.col("task") == AVERAGE, named=True)
    if row["effect"] is None or row["verdict"] == NOT_MEASURED:
        return
    for effect in rows.filter(pl.col("task") != AVERAGE)["effect"].drop_nulls():
        _plot_point(axes, effect, place + 0.25, ".", {"color": "0.6", "markersize": 3})
    look = look_of(row["verdict"], style)
    if row["low"] is not None:
        axes.plot([row["low"], row["high"]], [place] * 2, color=look["color"], linewidth=1)
        for end in (row["low"], row["high"]):
            if not _within(axes, end):
                _plot_point(axes, end, place, "", {"color": look["color"], "markersize": 4})
    _plot_point(axes, row["effect"], place, MARKERS[row["verdict"]], look)
    for column, marker in _AGAINST.values():
        if row[column] is not None:
            _plot_point(axes, row[column], place, marker, _AGAINST_LOOK)


def _name_right(axes: Axes, rows: list[dict[str, Any]], size: float, with_head: bool) -> None:
    """Write the marks of effect, control and null, and the verdict, right of the axes."""
    right = axes.twinx()
    right.set_ylim(axes.get_ylim())
    lines = [f"{_signs_and_verdict(row)}\n{measured_on(row)}" for row in rows]
    head: dict[float, str] = {-0.75: _HEAD} if with_head else {}
    names = head | {float(place): name for place, name in enumerate(lines)}
    right.set_yticks([*names], [*names.values()], fontsize=size, fontfamily="DejaVu Sans Mono")
    right.tick_params(length=0, pad=8)  # arrows at the edge need room
    right.spines["right"].set_visible(False)


def marks_and_verdict(row: Mapping[str, Any]) -> str:
    """The marks of a row of the table ``claims``, its unit, and its verdict, in two lines."""
    return f"{row['unit']}\n{_signs_and_verdict(row)}"


def _signs_and_verdict(row: Mapping[str, Any]) -> str:
    return f"{'  '.join(signs_of(row))}   {row['verdict']}"


def _plot_point(
    axes: Axes, effect: float, place: float, marker: str, look: Mapping[str, Any]
) -> None:
    low, high = axes.get_xlim()
    if not _within(axes, effect):
        marker = "<" if effect < low else ">"
    axes.plot(min(max(effect, low), high), place, marker, clip_on=False, **look)


def _within(axes: Axes, value: float) -> bool:
    low, high = axes.get_xlim()
    return low <= value <= high


_AGAINST_LOOK: dict[str, Any] = {"color": "0.2", "markersize": 5, "markeredgewidth": 0.9}


def look_of(verdict: str, style: Mapping[str, Any]) -> dict[str, Any]:
    """Color and fill of a verdict's marker; filled if it is for or against the claim."""
    color = dict(zip(_COLORED, style["colors"], strict=False)).get(verdict, "0.45")
    face = color if verdict in (SUPPORTED, UNTRAINED_TOO, NOT_SUPPORTED) else "white"
    return {"color": color, "markerfacecolor": face, "markersize": 5}


def legend_of_verdicts(
    style: Mapping[str, Any], occurring: list[str] | None = None
) -> list[Line2D]:
    """Legend entries for the markers of ``plot_effect``, of all verdicts or of those occurring."""
    verdicts = [
        Line2D([], [], marker=marker, label=verdict, **look_of(verdict, style))
        for verdict, marker in MARKERS.items()
        if occurring is None or verdict in occurring
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
