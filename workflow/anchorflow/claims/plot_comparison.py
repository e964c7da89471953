"""Every claim for several models: its effects, and the compared quantities over depth.

Models differ in their number of layers, so depth is relative: 0 before the first layer, 1 after
the last.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.axes import Axes

from anchorflow.claims.claim import QUARTILES, Claim, Curve, Depth, Isolated
from anchorflow.claims.plot import legend_of_verdicts, marks_and_verdict, plot_effect
from anchorflow.claims.summarize import load_claims
from anchorflow.present.style import (
    DASHES,
    MARKERS,
    PAGE,
    plot_line,
    sample_size,
    save,
    small_multiples,
)
from anchorflow.schemas.frames import layers_of
from anchorflow.statistics.by_task import AVERAGE
from anchorflow.statistics.change import RETAINED

_THIRDS = (0, 1 / 3, 2 / 3, 1)


def plot_comparison(
    claims: pl.DataFrame,
    summaries: Mapping[str, pl.DataFrame],
    variant: str,
    style: Mapping[str, Any],
    confidence: float,
    folder: Path,
) -> None:
    """Plot every claim for all models, as ``{claim}.png`` and in other formats, in a folder."""
    models = claims["model"].unique(maintain_order=True).to_list()
    of_models = {
        model: {name: rows.filter(model=model) for name, rows in summaries.items()}
        for model in models
    }
    for claim in load_claims():
        rows = claims.filter(claim=claim.name)
        panels = len(_panel_names(claim))
        title = f"{claim.statement} ({claim.source})\n{claim.compared}\n"
        title += f"averaged over tasks, {_counted(claim, rows)}"
        if claim.rule != QUARTILES:
            title += f"; bars and bands are {confidence:.0%} intervals"
        with small_multiples(style, 1, 1 + panels, title, share=False) as (figure, (axes,)):
            width, height = figure.get_size_inches()
            figure.set_size_inches(
                min(width + 1.5 * style["panel_width"], style.get("width", PAGE)),
                height + 0.2 + 0.3 * max(0, len(models) - 4),
            )
            _plot_effects(axes[0], rows, models, style)
            for axis, name in zip(axes[1:], _panel_names(claim), strict=True):
                axis.set_title(name)
                axis.set_xlim(0, 1)
                axis.set_xticks(_THIRDS, ["0", "1/3", "2/3", "1"])
                axis.grid(axis="x", linewidth=0.3, color="0.85")
                axis.set_xlabel("relative depth")
            for order, (model, of_model) in enumerate(of_models.items()):
                look = {"color": style["colors"][order % 3], "order": order % 3 + order // 3}
                _plot_depths(claim, axes[1:], of_model, variant, model, look)
            _share_heights(axes[1:])
            figure.legend(handles=legend_of_verdicts(style), loc="outside lower left", ncols=4)
            if panels:
                lines = axes[1].get_legend_handles_labels()
                figure.legend(*lines, loc="outside lower right", ncols=3)
            kinds = (*style["formats"], "png")
            save(figure, {kind: folder / f"{claim.name}.{kind}" for kind in kinds})


def _panel_names(claim: Claim) -> list[str]:
    """Names of the panels over depth; none for claims that are not about layers."""
    of_claim = claim.over_depth
    if isinstance(of_claim, Depth):
        return [
            of_claim.measure if len(of_claim.curves) == 1 else f"{curve.name}, {of_claim.measure}"
            for curve in of_claim.curves
        ]
    return [f"effect retained, {isolated.name} isolated" for isolated in of_claim or ()]


def _plot_effects(
    axes: Axes, rows: pl.DataFrame, models: Sequence[str], style: Mapping[str, Any]
) -> None:
    """Plot one line per model, the first on top, on an axis that includes all values and 0."""
    average = rows.filter(task=AVERAGE)
    ends_and_controls = ("low", "high", "control_effect", "null_effect")
    ends = pl.concat(
        [rows["effect"], *(average[name] for name in ends_and_controls), pl.Series([0.0])]
    )
    low, high = float(ends.min()), float(ends.max())  # type: ignore[arg-type]
    margin = 0.08 * (high - low) or 1.0
    axes.set_xlim(low - margin, high + margin)
    axes.axvline(0, color="0.6", linewidth=0.6, zorder=0)
    right: dict[str, Any] = {
        "transform": axes.get_yaxis_transform(),
        "fontsize": 0.8 * style["font_size"],
        "va": "center",
    }
    for place, model in enumerate(models):
        plot_effect(axes, rows.filter(model=model), place, style)
        axes.text(
            1.02, place, marks_and_verdict(average.filter(model=model).row(0, named=True)), **right
        )
    axes.set_yticks(range(len(models)), models)
    axes.set_ylim(len(models) - 0.5, -0.5)
    axes.set_xlabel("effect; above 0 where the claim holds")


def _plot_depths(
    claim: Claim,
    axes: Sequence[Axes],
    summaries: Mapping[str, pl.DataFrame],
    variant: str,
    model: str,
    look: Mapping[str, Any],
) -> None:
    """Plot the lines of one model, one per panel."""
    layers = layers_of(summaries["attention"])
    of_claim = claim.over_depth
    if isinstance(of_claim, Depth):
        for axis, curve in zip(axes, of_claim.curves, strict=True):
            plot_line(axis, over_depth(curve, summaries, layers), label=model, x="depth", **look)
        return
    for axis, isolated in zip(axes, of_claim or (), strict=True):
        _plot_isolated(
            axis,
            isolated_depths(isolated, summaries["isolation"], variant, len(layers)),
            model,
            look,
        )


def over_depth(
    curve: Curve, summaries: Mapping[str, pl.DataFrame], layers: Sequence[int]
) -> pl.DataFrame:
    """A curve of one model, averaged over tasks: one row per layer with a value.

    ``depth`` is that of the layer's middle among ``layers``, those that attend. Of several heads,
    the one with the highest mean counts.
    """
    chosen = {"task": AVERAGE, **curve.rows}
    rows = summaries[curve.table].filter(pl.col(name) == value for name, value in chosen.items())
    best = rows.drop_nulls("mean").sort("mean").group_by("layer").last().sort("layer")
    order = pl.col("layer").replace_strict({at: n for n, at in enumerate(layers)})
    return best.select(((order + 0.5) / len(layers)).alias("depth"), "mean", "low", "high")


def isolated_depths(
    isolated: Isolated, loyalty: pl.DataFrame, variant: str, layers: int
) -> pl.DataFrame:
    """What one model retains with the largest number of isolated layers.

    ``start`` and ``end`` are relative depths.
    """
    rows = loyalty.filter(
        pl.col("task") == AVERAGE,
        pl.col("variant") == variant,
        pl.col("measure") == RETAINED,
        pl.col("positions") == isolated.positions,
        pl.col("side").is_in(isolated.sides),
    )
    share = pl.col("layers") / layers
    last = pl.col("side") == "last"
    return rows.filter(pl.col("layers") == pl.col("layers").max()).select(
        pl.when(last).then(1 - share).otherwise(0).alias("start"),
        pl.when(last).then(1).otherwise(share).alias("end"),
        "mean",
        "low",
        "high",
    )


def _plot_isolated(axes: Axes, rows: pl.DataFrame, model: str, look: Mapping[str, Any]) -> None:
    """Plot a bar over the isolated layers, with its interval as a vertical line in the middle."""
    order = look["order"]
    for number, row in enumerate(rows.iter_rows(named=True)):
        middle = (row["start"] + row["end"]) / 2 + 0.01 * order  # models' intervals side by side
        axes.plot(
            [row["start"], row["end"]],
            [row["mean"]] * 2,
            color=look["color"],
            linestyle=DASHES[order % len(DASHES)],
            marker=MARKERS[order % len(MARKERS)],
            label=model if number == 0 else None,
        )
        axes.plot([middle] * 2, [row["low"], row["high"]], color=look["color"], linewidth=0.8)


def _share_heights(axes: Sequence[Axes]) -> None:
    """Give all panels the same y axis, since they show the same measure."""
    if axes:
        limits = [axis.get_ylim() for axis in axes]
        for axis in axes:
            axis.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))


def _counted(claim: Claim, rows: pl.DataFrame) -> str:
    timed = claim.rule == QUARTILES
    of_models = rows.filter(task=AVERAGE).sort("examples", "texts")
    counts = dict.fromkeys(
        f"{row['examples']} timed batches" if timed else sample_size(row)
        for row in of_models.iter_rows(named=True)
    )
    return f"{' and '.join(counts)} per model"
