"""Common style of all figures: small multiples with intervals, in vector formats and PNG."""

import io
import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import polars as pl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from PIL import Image

from anchorflow.statistics.by_task import AVERAGE
from anchorflow.store.replacing import replacing

matplotlib.use("Agg")
# It logs every table of a font that a PDF embeds, which would drown the rest of a job's log.
logging.getLogger("fontTools").setLevel(logging.WARNING)

# Lines also differ by dash and marker, so that they can be distinguished in grayscale.
DASHES = ("-", "--", ":")
MARKERS = ("o", "s", "^")

_LONGEST_WORD = 30  # characters of a label word that fit below a panel


@contextmanager
def small_multiples(
    style: Mapping[str, Any], rows: int, columns: int, title: str, share: bool = True
) -> Iterator[tuple[Figure, list[list[Axes]]]]:
    """A grid of panels, closed when the block ends.

    Parameters
    ----------
    style : mapping
        ``figures`` of the configuration: panel width (inches), font size (points), resolution.
    share : bool
        Whether all panels have the same x axis.
    """
    width = style["panel_width"]
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
    }
    with plt.rc_context(settings):
        figure, axes = plt.subplots(
            rows,
            columns,
            figsize=(columns * width, rows * width * 0.85 + 0.5),
            squeeze=False,
            sharex=share,
            layout="constrained",
        )
        figure.suptitle(title, fontsize=style["font_size"] + 1, wrap=True)
        try:
            yield figure, axes.tolist()
        finally:
            plt.close(figure)


def as_shown(word: str) -> str:
    """A label word for figures: one short line, with "$" escaped, which would begin a formula."""
    line = " ".join(word.split())
    short = line if len(line) <= _LONGEST_WORD else line[: _LONGEST_WORD - 1] + "…"
    return short.replace("$", r"\$")


def plot_line(
    axes: Axes, rows: pl.DataFrame, color: str, order: int, label: str, x: str = "layer"
) -> None:
    """Plot one line with its interval as a band; ``rows`` has columns x, mean, low, and high."""
    rows = rows.sort(x)
    axes.fill_between(rows[x], rows["low"], rows["high"], color=color, alpha=0.18, linewidth=0)
    axes.plot(
        rows[x],
        rows["mean"],
        color=color,
        linestyle=DASHES[order % len(DASHES)],
        marker=MARKERS[order % len(MARKERS)],
        label=label,
    )
    if x == "layer":
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def thin(order: int) -> dict[str, Any]:
    """The look of a control's line: gray and without a band; controls differ by dash alone."""
    dashes = ("-", (0, (4, 2)), (0, (1, 1.5)))
    return {"color": "#404040", "linewidth": 0.8, "linestyle": dashes[order % len(dashes)]}


def tasks_in_order(summary: pl.DataFrame) -> list[str]:
    """The tasks of a summary as configured, followed by the average if there are several."""
    tasks = [t for t in summary["task"].unique(maintain_order=True) if t != AVERAGE]
    return [*tasks, AVERAGE] if len(tasks) > 1 else tasks


def describe(summary: pl.DataFrame, confidence: float, marks: str = "bands") -> str:
    """Model, sample size, and meaning of the ``marks``, for the title of a figure."""
    total = summary.filter(pl.col("task") == AVERAGE).row(0, named=True)
    examples, seeds = total["examples"], total["seeds"]
    size = f"{examples} examples over {seeds} seed{'s' * (seeds != 1)}; " if examples else ""
    return f"{total['model']}: {size}{marks} are {confidence:.0%} intervals"


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


def save(figure: Figure, paths: Mapping[str, str | Path]) -> None:
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
