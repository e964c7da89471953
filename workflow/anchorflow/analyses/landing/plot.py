"""Attention to the demonstrations by segment and by place ([K] Fig. 2)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes

from anchorflow.present import style as look
from anchorflow.present.style import Paths, Style, small_multiples
from anchorflow.schemas.fields import SINK
from anchorflow.schemas.frames import layers_of

# Okabe-Ito colors, with dash styles to distinguish lines in grayscale.
_SEGMENTS = {
    "before_text": ("before the text", "#999999", ":"),
    "text": ("text", "#0072B2", "--"),
    "before_label": ("before the label word", "#E69F00", "-."),
    "label": ("label word", "#D55E00", "-"),
    "after": ("after", "#000000", (0, (1, 1))),
}
_WHOLE = "all demonstrations; the rest goes to the first token and the query"
# Fields that are not named text, in the order in which they first appear.
_FIELDS = (("#0072B2", "--"), ("#009E73", (0, (5, 1, 1, 1))), ("#CC79A7", (0, (3, 2))))
_BEFORE_FIELD = ("#999999", ":")


def segments_in_order(rows: pl.DataFrame) -> list[str]:
    """The segments of one task or several, in their order within a demonstration."""
    found = rows["segment"].drop_nulls().unique(maintain_order=True).to_list()
    found = [segment for segment in found if segment != SINK]
    last = [segment for segment in ("before_label", "label", "after") if segment in found]
    return [*(segment for segment in found if segment not in last), *last]


def _styles(landing: pl.DataFrame) -> dict[str, tuple[str, str, Any]]:
    """Name, color and dashes of the lines of all segments."""
    styles = {}
    fields = 0
    for segment in segments_in_order(landing):
        if segment in _SEGMENTS:
            styles[segment] = _SEGMENTS[segment]
        elif segment.startswith("before_"):
            name = f"before the {segment.removeprefix('before_')}"
            styles[segment] = (name, *_BEFORE_FIELD)
        else:
            styles[segment] = (segment, *_FIELDS[fields % len(_FIELDS)])
            fields += 1
    return styles


def plot_landing(summary: pl.DataFrame, style: Style, confidence: float, paths: Paths) -> None:
    """Plot the table ``landing_summary`` of one model, one column per task.

    Top: attention from the target per token of each segment, by layer. Middle: attention to all
    demonstrations. Bottom: attention by place in the demonstrations, all rescaled to one length,
    relative to each layer's maximum.
    """
    tasks = look.tasks_in_order(summary)
    title = "Attention from the target to the demonstrations, averaged over heads,\n"
    title += look.describe(summary, confidence)
    styles = _styles(summary)
    with small_multiples(style, 3, len(tasks), title, share=False) as (figure, axes):
        for column, task in enumerate(tasks):
            rows = summary.filter(task=task)
            above, middle, below = (row[column] for row in axes)
            _plot_segments(above, rows.filter(measure="per_token"), styles)
            above.set_title(task)
            whole = rows.filter(measure="whole")
            look.plot_line(middle, whole.filter(pl.col("segment").is_null()), "0.2", 0, _WHOLE)
            sinks = whole.filter(segment=SINK)
            if len(sinks):
                look.plot_line(middle, sinks, "#009E73", 0, "learned sinks", linestyle=":")
            middle.set_ylim(0, 1)
            for panel in (above, middle):
                panel.set_xlabel("layer")
            image = _plot_places(below, rows)
            below.set_xlabel("place in the\ndemonstration")
        look.name_y(axes[0], "attention\nper token")
        look.name_y(axes[1], "attention to all\ndemonstrations")
        look.name_y(axes[2], "layer")
        handle_of = look.legend_entries(axes[0])
        legend = {name: handle_of[name] for name, _, _ in styles.values()}
        look.legend_below(figure, legend.values(), legend, len(_SEGMENTS), handlelength=3)
        figure.set_figheight(figure.get_figheight() + 0.8)  # of the color bar
        bar: Any = {"location": "bottom", "shrink": 0.5, "aspect": 40}
        label = "attention, relative to the layer's maximum"
        figure.colorbar(image, ax=[panel for row in axes for panel in row], label=label, **bar)
        look.save(figure, paths)


def _plot_segments(
    axes: Axes, rows: pl.DataFrame, styles: Mapping[str, tuple[str, str, Any]]
) -> None:
    for segment in segments_in_order(rows):
        name, color, dashes = styles[segment]
        line = rows.filter(segment=segment)
        look.plot_line(axes, line, color, 0, name, linestyle=dashes, marker="")
    axes.set_ylim(bottom=0)


def _plot_places(axes: Axes, rows: pl.DataFrame) -> Any:
    places = rows.filter(pl.col("place").is_not_null()).sort("layer", "place")
    layers = layers_of(places)
    matrix = places["mean"].to_numpy().reshape(len(layers), -1)
    largest = matrix.max(1, keepdims=True)
    scaled = np.divide(matrix, largest, out=np.zeros(matrix.shape), where=largest > 0)
    image = look.heat_map(axes, scaled, "viridis", (0, 1), layers, (0, 1, -0.5, len(layers) - 0.5))
    widths = rows.filter(measure="width", layer=rows["layer"].min()).drop_nulls("mean")
    of_segment = dict(widths.select("segment", "mean").iter_rows())
    segments = segments_in_order(widths)
    ends = np.cumsum([of_segment[segment] for segment in segments])
    # Tasks with different fields: the average has only the segments that all of them share. A task
    # that was skipped whole has none.
    if not len(ends) or ends[-1] < 1 - 1e-6:
        segments, ends = [], ends[:0]
    for end in ends[:-1]:
        axes.axvline(end, color="white", linewidth=0.6, linestyle=":")
    for segment, end in zip(segments, ends, strict=True):
        if segment != "after" and not segment.startswith("before_"):
            middle = end - of_segment[segment] / 2
            axes.annotate(
                segment, (middle, 1.0), (0, 2), ("data", "axes fraction"),
                textcoords="offset points", ha="center", fontsize="x-small",
            )  # fmt: skip
    return image
