"""What answers follow with deranged label words: prior, mapping, or neither."""

import polars as pl

from anchorflow.analyses.override import DERANGED
from anchorflow.config.cell_names import OWN
from anchorflow.present import style as look
from anchorflow.present.style import Paths, Style, small_multiples

_FOLLOWED = {
    "follows_mapping": "the demonstrations' mapping",
    "follows_prior": "the prior",
    "follows_neither": "neither",
}
_WORDS = {DERANGED: "deranged", OWN: "own"}
_WAYS = {
    "full": "plain",
    "hidden_anchor": "anchors",
    "reweighted": "β",
    "reweighted_anchor": "anchors, β",
}


def plot_override(summary: pl.DataFrame, style: Style, confidence: float, paths: Paths) -> None:
    """Plot the table ``override_summary`` of one model, one panel per task.

    Bars are the shares of what answers follow, for every way of answering with deranged label words
    and with the task's own; points are override rates with intervals, and dashes those of exchanged
    answers.
    """
    tasks = look.tasks_in_order(summary)
    title = "What answers follow,\n"
    title += look.describe(summary, confidence, "error bars")
    ways = summary.select("method", "words").unique(maintain_order=True).rows()
    places = [place + 0.4 * (place // 2) for place in range(len(ways))]
    colors = (style["colors"][0], style["colors"][1], "0.8")
    with small_multiples(style, 1, len(tasks), title) as (figure, (panels,)):
        for axes, task in zip(panels, tasks, strict=True):
            for place, (method, words) in zip(places, ways, strict=True):
                rows = summary.filter(task=task, method=method, words=words)
                means = dict(rows.select("measure", "mean").iter_rows())
                bottom = 0.0
                for (measure, name), color in zip(_FOLLOWED.items(), colors, strict=True):
                    height = means[measure] or 0.0
                    axes.bar(place, height, 0.8, bottom, color=color, label=name, linewidth=0)
                    bottom += height
                rate = rows.filter(pl.col("mean").is_not_null(), measure="override")
                axes.errorbar(
                    [place] * len(rate),
                    rate["mean"],
                    yerr=look.spread(rate),
                    color="black",
                    marker="o",
                    markersize=4,
                    linestyle="none",
                    elinewidth=0.8,
                    capsize=2,
                    label="override rate",
                )
                if means["exchanged"] is not None:
                    axes.hlines(
                        means["exchanged"],
                        place - 0.35,
                        place + 0.35,
                        color="black",
                        linestyle=(0, (2, 1)),
                        label="that of exchanged answers",
                    )
            axes.set_ylim(0, 1.06)
            axes.set_title(task)
            names = [f"{_WAYS[method]}, {_WORDS[words]}" for method, words in ways]
            axes.set_xticks(places, names, rotation=60, ha="right", fontsize="small")
        look.name_y(panels, "share of answers")
        look.legend_of(figure, panels)
        look.save(figure, paths)
