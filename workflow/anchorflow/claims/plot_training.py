"""The effect of every claim over the training of a model, one panel each, with verdicts."""

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, NullFormatter

from anchorflow.claims.plot import MARKERS, OTHER_UNITS, look_of
from anchorflow.claims.schema import TRAINING
from anchorflow.claims.verdicts import NOT_MEASURED, VERDICTS
from anchorflow.present.style import Paths, Style, legend_below, name_y, save, small_multiples
from anchorflow.schemas.frames import frame_schema
from anchorflow.statistics.by_task import AVERAGE

_ONE_SEED = "effect without a verdict (one seed)"
_LINE = 22  # characters above a panel, of which four are side by side
_APART = 0.17  # of the axis, between the names of two checkpoints


def over_training(
    claims: pl.DataFrame, training: str, checkpoints: Sequence[tuple[str, str, int | None]]
) -> pl.DataFrame:
    """The table ``training``, from the tables ``claims`` of its checkpoints.

    ``checkpoints`` are in order: model, name, and step, as in ``config/checkpoints.py``.
    """
    schema = frame_schema(TRAINING)
    order = pl.DataFrame(
        [(*checkpoint, place) for place, checkpoint in enumerate(checkpoints)],
        {name: schema[name] for name in ("model", "checkpoint", "step", "order")},
        orient="row",
    )
    found = order.join(claims, on="model", maintain_order="left_right")
    return found.select(
        pl.lit(training).alias(name) if name == "training" else pl.col(name)
        for name in TRAINING.names
    )


def plot_training(training: pl.DataFrame, style: Style, confidence: float, paths: Paths) -> None:
    """Plot the claims of the table ``training`` that answer a question and have an effect.

    Effects are averages over tasks, each panel with a scale of its own. Steps are on a logarithmic
    axis; without them, checkpoints are at equal distances.
    """
    asked = training.filter(pl.col("question").is_not_null(), task=AVERAGE)
    measured = asked.filter(pl.col("effect").is_not_null().any().over("claim"))
    claims = measured["claim"].unique(maintain_order=True).to_list()
    title = (
        f"Claims over the training of {training['training'][0]}, averaged over tasks;\n"
        f"bars are {confidence:.0%} intervals of single checkpoints"
    )
    with small_multiples(style, 1, max(1, len(claims)), title) as (figure, (panels,)):
        for panel, claim in zip(panels, claims, strict=False):
            _plot_claim(panel, measured.filter(claim=claim), style)
        name_y(panels, "effect")
        if claims:
            _name_checkpoints(panels, measured.filter(claim=claims[0]))
            handles = _legend(measured, style)
            legend_below(figure, handles, [str(handle.get_label()) for handle in handles], 4)
        else:
            panels[0].set_axis_off()
            panels[0].text(0.5, 0.5, "No claim was measured.", ha="center")
        save(figure, paths)


def _plot_claim(axes: Axes, rows: pl.DataFrame, style: Style) -> None:
    """Plot the effect at every checkpoint with its interval, and 0; gaps where it has no value."""
    first = rows.row(0, named=True)
    unit = OTHER_UNITS.get(first["unit"])
    question = first["question"] + (f" ({unit})" if unit else "")
    axes.set_title(fill(question, _LINE), fontsize=0.9 * style["font_size"])
    axes.axhline(0, color="0.4", linewidth=0.9, linestyle=":", zorder=0)
    places = _places(rows)
    axes.plot(places, rows["effect"].cast(pl.Float64), color="0.6", linewidth=0.8, zorder=1)
    for place, row in zip(places, rows.iter_rows(named=True), strict=True):
        if row["effect"] is None:
            continue
        look = _look(row["verdict"], style)
        if row["low"] is not None:
            axes.plot([place] * 2, [row["low"], row["high"]], color=look["color"], linewidth=0.9)
        axes.plot(place, row["effect"], **look)


def _places(rows: pl.DataFrame) -> list[int]:
    has_steps = rows["step"].is_not_null().all()
    places: list[int] = rows["step" if has_steps else "order"].to_list()
    return places


def _name_checkpoints(panels: Sequence[Axes], rows: pl.DataFrame) -> None:
    """Scale the x axis that all panels share, and name it below the last one of each column."""
    places, names = _places(rows), rows["checkpoint"].to_list()
    turned: Mapping[str, Any] = {"rotation": 45, "ha": "right"}
    has_steps, label = rows["step"].is_not_null().all(), "checkpoint"
    if has_steps:
        # Linear up to the first step after 0, which a logarithm lacks.
        panels[0].set_xscale("symlog", linthresh=next(place for place in places if place))
        names, turned = [EngFormatter(sep="")(place) for place in places], {}
        label = "training step, log scale"
    named = _apart(panels[0], places)
    grid = panels[0].get_gridspec()
    assert grid is not None  # of subplots
    for order, panel in enumerate(panels):
        is_last = order + grid.ncols >= len(panels)
        panel.tick_params(labelbottom=is_last)
        panel.set_xlabel(label if is_last else "")
        panel.set_xticks([places[at] for at in named], [names[at] for at in named], **turned)
        panel.set_xticks(places, minor=True)
        panel.xaxis.set_minor_formatter(NullFormatter())


def _apart(axes: Axes, places: Sequence[int]) -> list[int]:
    """Which checkpoints have room for their names; the first and the last one do."""
    points = axes.transData.transform([(place, 0) for place in places])
    at = axes.transAxes.inverted().transform(points)[:, 0]
    kept = [0, len(places) - 1]
    for order in reversed(range(len(places))):
        if all(abs(at[order] - at[other]) >= _APART for other in kept):
            kept.append(order)
    return kept


def _look(verdict: str, style: Style) -> dict[str, Any]:
    marker = MARKERS.get(verdict, ".")
    looks = {"marker": marker, "markersize": 4, "linestyle": "none"}
    return {**look_of(verdict, style), **looks}


def _legend(rows: pl.DataFrame, style: Style) -> list[Line2D]:
    """Entries for the verdicts that occur."""
    occurring = rows.drop_nulls("effect")["verdict"].to_list()
    return [
        Line2D([], [], label=_ONE_SEED if name == NOT_MEASURED else name, **_look(name, style))
        for name in VERDICTS
        if name in occurring
    ]
