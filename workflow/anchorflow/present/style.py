"""Common style of all figures: small multiples with intervals, in vector formats and PNG."""

import io
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import polars as pl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator
from PIL import Image

from anchorflow.arrays import Array
from anchorflow.config.errors import InputError
from anchorflow.statistics.by_task import AVERAGE
from anchorflow.store.replacing import replacing

matplotlib.use("Agg")
# It logs every table of a font that a PDF embeds, which would drown the rest of a job's log.
logging.getLogger("fontTools").setLevel(logging.WARNING)

Style = Mapping[str, Any]  # ``figures`` of the configuration
Paths = Mapping[str, str | Path]  # a figure's files by format

# Lines also differ by dash and marker, so that they can be distinguished in grayscale.
DASHES = ("-", "--", ":", "-.")
MARKERS = ("o", "s", "^", "D")

_CHANCE = "chance"
_HATCHES = ("", "////", "....")

BAR = 0.36  # width of a bar, where groups of bars are 1 apart
PAGE = 6.8  # inches between the margins of a printed page, if figures.width says nothing else
_ABREAST = 4  # panels on one line of a page
_LOWEST, _HIGHEST = 1.65, 2.3  # inches, of a panel with its title and its axis
_LONGEST_WORD = 30  # characters of a label word that fit below a panel


@contextmanager
def small_multiples(
    style: Style, rows: int, columns: int, title: str, share: bool = True, share_y: bool = False
) -> Iterator[tuple[Figure, list[list[Axes]]]]:
    """A grid of panels, closed when the block ends.

    Columns that a page has no room for continue below all rows, and panels get narrower where they
    would exceed a page.

    ``style`` is ``figures`` of the configuration, in which title, width and font may be missing.
    With ``share``, all panels have the same x axis; with ``share_y``, those side by side have the
    same y axis.
    """
    _check_font(style.get("font"))
    lines = -(-columns // _ABREAST)  # of the page, for each row
    abreast = -(-columns // lines)
    width = min(style["panel_width"], style.get("width", PAGE) / abreast)
    height = min(max(0.85 * width, _LOWEST), _HIGHEST)
    settings: Any = {
        "font.size": style["font_size"],
        "axes.titlesize": style["font_size"],
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.linewidth": 0.6,
        "lines.linewidth": 1.2,
        "lines.markersize": 2.5,
        "legend.frameon": False,
        "pdf.fonttype": 42,  # TrueType: text stays text, and journals accept it
        "svg.hashsalt": "anchorflow",  # the same identifiers in every run
        "savefig.dpi": style["resolution"],
        **({"font.family": style["font"]} if style.get("font") else {}),
    }
    with plt.rc_context(settings):
        figure, grid = plt.subplots(
            lines * rows,
            abreast,
            figsize=(abreast * width, lines * rows * height + 0.5),
            squeeze=False,
            sharex=share,
            sharey="row" if share_y else False,
            layout="constrained",
        )
        if style.get("title", True):
            figure.suptitle(title, fontsize=style["font_size"] + 1, wrap=True)
        axes = [grid[row::rows].ravel().tolist() for row in range(rows)]
        for panel in (panel for row in axes for panel in row[columns:]):
            panel.set_visible(False)
        for panel in axes[-1]:
            panel.tick_params(labelbottom=True)
        try:
            yield figure, [row[:columns] for row in axes]
        finally:
            plt.close(figure)


def _check_font(name: str | None) -> None:
    """Refuse a font in place of which matplotlib would take its own."""
    try:
        if name:
            findfont(name, fallback_to_default=False)
    except ValueError:
        raise InputError(
            f"figures.font: {name} is not installed; install it, name another, or leave it out."
        ) from None


def of_tasks(rows: pl.DataFrame, style: Style) -> pl.DataFrame:
    """The rows of the tasks that ``figures.tasks`` lists, in its order, and those of the average.

    All rows if it lists none. The average is that of all tasks of the run.
    """
    wanted = style.get("tasks") or ()
    if not wanted or "task" not in rows.columns:
        return rows
    order = {name: place for place, name in enumerate((*wanted, AVERAGE))}
    kept = rows.filter(pl.col("task").is_in(list(order)))
    return kept.sort(pl.col("task").replace_strict(order), maintain_order=True)


def layers_by_heads(rows: pl.DataFrame) -> Array:
    """The means of every head, [L, H]; NaN where undefined."""
    ordered = rows.sort("layer", "head")
    values: Array = ordered["mean"].fill_null(np.nan).to_numpy()
    return values.reshape(ordered["layer"].n_unique(), -1)


def with_controls(style: Style) -> bool:
    """Whether ``figures.controls`` asks for the gray lines of controls and untrained networks."""
    return bool(style.get("controls", True))


def name_y(panels: Iterable[Axes], name: str) -> None:
    """Name the y axis of the first panel on each line of the page."""
    for panel in panels:
        place = panel.get_subplotspec()
        if place is not None and place.is_first_col():
            panel.set_ylabel(name)


def as_shown(word: str) -> str:
    """A label word for figures: one short line, with "$" escaped, which would begin a formula."""
    line = " ".join(word.split())
    short = line if len(line) <= _LONGEST_WORD else line[: _LONGEST_WORD - 1] + "…"
    return short.replace("$", r"\$")


def plot_line(
    axes: Axes,
    rows: pl.DataFrame,
    color: Any,
    order: int,
    label: str,
    x: str = "layer",
    alpha: float = 0.18,
    **other: Any,
) -> None:
    """Plot one line with its interval as a band; ``rows`` has columns x, mean, low, and high.

    Its dashes and markers follow from ``order``, unless they are ``other`` ones.
    """
    rows = rows.sort(x)
    if alpha > 0:  # an invisible band would still set the panel's limits
        axes.fill_between(rows[x], rows["low"], rows["high"], color=color, alpha=alpha, linewidth=0)
    looks = {"linestyle": DASHES[order % len(DASHES)], "marker": MARKERS[order % len(MARKERS)]}
    axes.plot(rows[x], rows["mean"], color=color, label=label, **{**looks, **other})
    if x == "layer":
        number_layers(axes.xaxis)


def number_layers(axis: Axis, layers: Sequence[int] = ()) -> None:
    """Ticks at whole numbers, as many as narrow panels have room for.

    Rows of a heat map are numbered by the model's ``layers`` that they stand for, if given.
    """
    axis.set_major_locator(MaxNLocator(6, integer=True))
    if list(layers) != list(range(len(layers))):
        named = dict(enumerate(layers))
        axis.set_major_formatter(lambda row, _: str(named.get(round(row), "")))


def plot_bars(
    axes: Axes,
    rows: pl.DataFrame,
    places: Sequence[float],
    order: int,
    color: str,
    label: str,
    width: float = BAR,
) -> None:
    """Plot bars with intervals; bars of one order have the same hatches."""
    axes.bar(
        places,
        rows["mean"],
        width,
        yerr=spread(rows),
        color=color,
        hatch=_HATCHES[order],
        edgecolor="white",
        linewidth=0,
        error_kw={"elinewidth": 0.8, "capsize": 2},
        label=label,
    )


def spread(rows: pl.DataFrame) -> list[pl.Series]:
    """The lengths of error bars below and above the means."""
    return [(rows["mean"] - rows["low"]).clip(0), (rows["high"] - rows["mean"]).clip(0)]


def chance_levels(labels: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """The accuracy of a guess per task, by its label words, and averaged over tasks."""
    levels = {task: 1 / len(words) for task, words in labels.items()}
    return {**levels, AVERAGE: sum(levels.values()) / len(levels)}


def plot_chance(axes: Axes, level: float, vertical: bool = False) -> None:
    """Plot the accuracy of a guess as a dotted line."""
    plot = axes.axvline if vertical else axes.axhline
    plot(level, color="0.4", linewidth=0.9, linestyle=":", zorder=0, label=_CHANCE)


def thin(order: int) -> dict[str, Any]:
    """The look of a control's line: gray and without a band; controls differ by dash alone."""
    dashes = ("-", (0, (4, 2)), (0, (1, 1.5)))
    return {"color": "#404040", "linewidth": 0.8, "linestyle": dashes[order % len(dashes)]}


def tasks_in_order(summary: pl.DataFrame) -> list[str]:
    """The tasks of a summary as configured, followed by the average unless there is one task."""
    tasks = [t for t in summary["task"].unique(maintain_order=True) if t != AVERAGE]
    return tasks if len(tasks) == 1 else [*tasks, AVERAGE]


def sample_size(row: Mapping[str, Any]) -> str:
    """Test texts, distinct ones among them, and seeds of a row of a summary."""
    examples, texts, seeds = row["examples"], row["texts"], row["seeds"]
    distinct = "" if texts is None or texts == examples else f" ({texts} distinct)"
    several = "" if examples == 1 else "s"
    return f"{examples} test text{several}{distinct} over {seeds} seed{'s' * (seeds != 1)}"


def describe(summary: pl.DataFrame, confidence: float, marks: str = "bands") -> str:
    """Model, sample size, and meaning of the ``marks``, for the title of a figure.

    Where no row has an interval, as with a single text, the figure has no marks.
    """
    total = summary.filter(pl.col("task") == AVERAGE).row(0, named=True)
    parts = [sample_size(total)] if total["examples"] else []
    if summary["low"].is_not_null().any():
        parts.append(f"{marks} are {confidence:.0%} intervals")
    return f"{total['model']}: {'; '.join(parts)}"


def lowest(rows: pl.DataFrame) -> float:
    """The lower end of an axis of shares that has room for intervals below 0, down to -1."""
    low = float(rows["low"].fill_null(0).to_numpy().min(initial=0))
    return max(-1.04, low - 0.04) if low < 0 else 0.0


def legend_entries(panels: Iterable[Axes]) -> dict[str, Any]:
    """The handles in several panels by their names: bars first, chance last."""
    handles = {
        name: handle
        for panel in panels
        for handle, name in zip(*panel.get_legend_handles_labels(), strict=True)
    }

    def place(entry: tuple[str, Any]) -> tuple[bool, bool]:
        name, handle = entry
        return name == _CHANCE, not isinstance(handle, BarContainer)

    return dict(sorted(handles.items(), key=place))


def legend_below(
    figure: Figure, handles: Iterable[Any], names: Iterable[str], most: int = 99, **look: Any
) -> None:
    """A legend below all panels, with the largest number of columns, up to ``most``, that fits.

    Columns are filled one after the other. Lines after the first make the figure higher.
    """
    handles, names = list(handles), list(names)
    for columns in range(min(most, len(names)), 0, -1):
        legend = figure.legend(handles, names, loc="outside lower center", ncols=columns, **look)
        size = legend.get_window_extent()
        if columns == 1 or size.width <= figure.bbox.width:
            lines = -(-len(names) // columns)
            added = size.height / figure.dpi * (1 - 1 / lines)
            figure.set_figheight(figure.get_figheight() + added)
            return
        legend.remove()


def legend_of(figure: Figure, panels: Iterable[Axes], most: int = 99) -> None:
    """A legend below all panels of what some of them show; see :func:`legend_below`."""
    handle_of = legend_entries(panels)
    legend_below(figure, handle_of.values(), handle_of, most)


def heat_map(
    axes: Axes,
    values: Array,
    colors: str,
    limits: tuple[float, float],
    layers: Sequence[int],
    extent: tuple[float, float, float, float] | None = None,
) -> AxesImage:
    """Plot a value per layer, from below, and head, [L, H], with these limits of the colors.

    ``layers`` are their numbers in the model. With an ``extent``, its columns are places in place
    of heads.
    """
    least, most = limits
    of: Any = {"origin": "lower", "aspect": "auto", "interpolation": "nearest", "extent": extent}
    image = axes.imshow(values, colors, vmin=least, vmax=most, **of)
    if extent is None:
        number_layers(axes.xaxis)
    number_layers(axes.yaxis, layers)
    return image


def circle(axes: Axes, layer: int, head: int) -> None:
    """Mark a head in a heat map."""
    axes.plot(head, layer, "o", color="white", markeredgecolor="black", markersize=3.5)


def save(figure: Figure, paths: Paths) -> None:
    """Write a figure once per format, for example ``{"pdf": …, "png": …}``.

    Without dates, so that equal results are equal files.
    """
    for kind, path in paths.items():
        metadata = {"CreationDate": None} if kind == "pdf" else None
        with replacing(path) as temporary:
            if kind == "png":
                _save_opaque(figure, temporary)
            else:
                figure.savefig(temporary, format=kind, metadata=metadata)


def _save_opaque(figure: Figure, path: Path) -> None:
    """Write a PNG without an alpha channel, since no figure is transparent."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", pil_kwargs={"compress_level": 1})
    with Image.open(drawn) as image:
        image.convert("RGB").save(path, "PNG", dpi=image.info["dpi"])
