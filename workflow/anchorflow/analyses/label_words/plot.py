"""Accuracy, flows, AUCROC_l, and loyalty with a task's own label words and with others."""

from collections.abc import Mapping, Sequence
from itertools import cycle

import polars as pl
from matplotlib.axes import Axes

from anchorflow.config.cell_names import OWN, Words
from anchorflow.present import style as look
from anchorflow.present.style import Paths, Style, small_multiples
from anchorflow.statistics.by_task import AVERAGE

_BY_LAYER = {
    "s_wp_share": "share of $S_{wp}$:\ntext → label words",
    "s_pq_share": "share of $S_{pq}$:\nlabel words → target",
    "auc": "AUCROC$_l$ of the target's\nattention to label words",
}
# Okabe-Ito colors that the configuration's do not include, used after them.
_FURTHER_COLORS = ("#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_SPELLED_OUT = 2  # label words printed below the name of their kind; more do not fit


def plot_label_words(
    summary: pl.DataFrame, words: Words, style: Style, confidence: float, paths: Paths
) -> None:
    """Plot the table ``label_words_summary`` of one model, two rows per task.

    In their order: accuracy, where label words stand for the labels of the demonstrations and,
    for permuted words, also where they are read by their meaning; the shares of two flows and
    AUCROC_l in every layer; label loyalty under isolation.

    ``words`` are the label words by task and name; none where they are drawn at random.
    """
    tasks = look.tasks_in_order(summary)
    title = look.describe(summary.filter(words=OWN), confidence, "bands and bars")
    kinds = summary["words"].unique(maintain_order=True).to_list()
    orders = {name: order for order, name in enumerate(kinds)}  # the same color in every row
    palette = cycle((*style["colors"], *_FURTHER_COLORS))
    colors = dict(zip(kinds, palette, strict=False))
    with small_multiples(
        style, 2 * len(tasks), 3, f"Own and other label words, {title}", share=False
    ) as (figure, axes):
        for task, above, below in zip(tasks, axes[::2], axes[1::2], strict=True):
            left, right, *middle = panels = [*above, *below[:-1]]
            below[-1].set_visible(False)
            for panel in panels:
                panel.set_ylim(-0.03, 1.03)
            rows = summary.filter(task=task)
            color_of = {name: color for name, color in colors.items() if name in rows["words"]}
            _plot_points(left, rows, ("accuracy", "follows_meaning"), color_of)
            _plot_points(right, rows, ("loyalty_label", "loyalty_random"), color_of)
            for panel, (measure, heading_of_measure) in zip(middle, _BY_LAYER.items(), strict=True):
                for name, color in color_of.items():
                    line = rows.filter(measure=measure, words=name)
                    look.plot_line(panel, line, color, orders[name], _kind(name))
                panel.set_xlabel("layer")
                panel.set_title(heading_of_measure)
                if measure == "auc":
                    look.plot_chance(panel, 0.5)
            named = [_spelled_out(name, words.get(task, {}).get(name)) for name in color_of]
            for panel in (left, right):
                panel.set_xticks(range(len(color_of)), named, fontsize="small")
            heading = f"{task}: accuracy"
            if task != AVERAGE:
                look.plot_chance(left, 1 / len(words[task][OWN]))
            if "follows_meaning" in rows["measure"]:
                heading += "\nopen: words read by their meaning"
            left.set_title(heading)
            right.set_title("label loyalty, isolated in the\nfirst layers; open: random tokens")
        look.legend_of(figure, [panel for row in axes for panel in row])
        look.save(figure, paths)


def _kind(name: str) -> str:
    return "own" if name == OWN else name


def _spelled_out(name: str, words: Sequence[str] | None) -> str:
    """The name and the first label words, one per line, or a note that every seed draws them."""
    if words is None:
        return _kind(name)
    if not words:
        return f"{_kind(name)}\ndrawn\nper seed"
    lines = [look.as_shown(word) for word in words[:_SPELLED_OUT]] + ["…"] * (
        len(words) > _SPELLED_OUT
    )
    return "\n".join([_kind(name), *lines])


def _plot_points(
    axes: Axes, rows: pl.DataFrame, measures: tuple[str, str], colors: Mapping[str, str]
) -> None:
    """Plot points with intervals for every kind of label words, open for the second measure."""
    for place, (name, color) in enumerate(colors.items()):
        for order, measure in enumerate(measures):
            chosen = pl.col("measure") == measure, pl.col("words") == name
            for mean, low, high in rows.filter(*chosen).select("mean", "low", "high").iter_rows():
                if mean is None:
                    continue
                axes.errorbar(
                    place + 0.3 * order - 0.15,
                    mean,
                    yerr=[[max(0, mean - low)], [max(0, high - mean)]],
                    color=color,
                    marker=look.MARKERS[order],
                    markersize=5,
                    markerfacecolor="white" if order else color,
                    elinewidth=0.8,
                    capsize=2,
                )
    axes.set_xlim(-0.5, len(colors) - 0.5)
