"""Kernel regression compared with exact inference, by number of demonstrations."""

import matplotlib as mpl
import polars as pl
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter, NullLocator

from anchorflow.analyses.theory.summarize import PUBLISHED, THEOREM
from anchorflow.present import style as look
from anchorflow.present.style import Paths, Style, small_multiples

# Okabe-Ito colors.
_KERNELS = {
    "dot_product": ("without Σ⁻¹", "#0072B2"),
    "prediction": ("similarity of predictions (eq. 9)", "#009E73"),
    "nearest": ("nearest neighbor", "#E69F00"),
}
_OWN = "#D55E00"  # of the theorem's kernel with the first ridge
_Y = {"distance": "distance from\nthe posterior (L1)", "accuracy": "same arg max\nas the posterior"}


def plot_theory(summary: pl.DataFrame, style: Style, confidence: float, paths: Paths) -> None:
    """Plot the table ``theory_summary``.

    Left and middle: distance and accuracy of all kernels, with the control and the published row.
    Right: distance with the theorem's kernel, by how Σ is inverted.
    """
    worlds = summary["worlds"][0]
    title = (
        "Kernel regression and exact Bayesian inference, without a language model:\n"
        f"{worlds} random worlds; bands are {confidence:.0%} intervals over worlds"
    )
    with small_multiples(style, 1, 3, title, share=False) as (figure, ((left, middle, right),)):
        means = summary.filter(pl.col("measure") == "distance", pl.col("mean") > 0)["mean"]
        least = 0.8 * min([*means, *PUBLISHED["distance"]])
        for axes in (left, right):
            axes.set_yscale("log")
            axes.set_ylim(least, 2.2)  # a distance is at most 2
        for axes, measure in ((left, "distance"), (middle, "accuracy")):
            _plot_kernels(axes, summary.filter(measure=measure), measure)
            axes.set_title("kernels")
        _plot_inverses(right, summary.filter(measure="distance"))
        right.set_title("theorem's kernel, by inverse")
        for axes in (left, right):
            axes.set_yticks([t for t in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2) if t >= least])
            axes.yaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_minor_formatter(NullFormatter())
        middle.set_ylim(0, 1.04)
        for axes in (left, middle, right):
            _number_x(axes, summary["demonstrations"].drop_nulls().unique().sort().to_list())
        look.legend_of(figure, (left, right))
        look.save(figure, paths)


def _plot_kernels(axes: Axes, rows: pl.DataFrame, measure: str) -> None:
    theorem = rows.filter(kernel=THEOREM)
    first = theorem["ridge"][0]
    of_theorem = theorem.filter(ridge=first)
    for order, (kernel, (name, color)) in enumerate(_KERNELS.items(), 1):
        line = rows.filter(kernel=kernel)
        look.plot_line(axes, line, color, order, name, x="demonstrations")
    name = _named(first, None)
    look.plot_line(axes, of_theorem, _OWN, 0, name, x="demonstrations")  # above the others
    control = rows.filter(kernel="permuted").sort("demonstrations")
    axes.plot(control["demonstrations"], control["mean"], label="labels permuted", **look.thin(1))
    known = (PUBLISHED["demonstrations"], PUBLISHED[measure])
    axes.plot(*known, "ok", markerfacecolor="white", markersize=4, label="[K], Table 3")
    axes.set_ylabel(_Y[measure])


def _plot_inverses(axes: Axes, rows: pl.DataFrame) -> None:
    theorem = rows.filter(kernel=THEOREM)
    ways = theorem.select("ridge", "rank").unique(maintain_order=True).rows()
    further = mpl.colormaps["viridis"].resampled(len(ways) + 1)
    for order, (ridge, rank) in reversed(list(enumerate(ways))):  # the first above the others
        line = theorem.filter(
            pl.col("ridge").eq_missing(pl.lit(ridge)), pl.col("rank").eq_missing(pl.lit(rank))
        )
        color = _OWN if order == 0 else mpl.colors.to_hex(further(order))
        look.plot_line(axes, line, color, order, _named(ridge, rank), x="demonstrations")
    axes.set_ylabel(_Y["distance"])


def _named(ridge: float | None, rank: int | None) -> str:
    return f"theorem, ridge {ridge:g}" if ridge is not None else f"theorem, rank {rank}"


def _number_x(axes: Axes, counts: list[int]) -> None:
    axes.set_xscale("log", base=2)
    # Every second number, from the last one; there is no room for all.
    numbers = [str(count) * ((len(counts) - at) % 2) for at, count in enumerate(counts)]
    axes.set_xticks(counts, numbers)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("demonstrations")
