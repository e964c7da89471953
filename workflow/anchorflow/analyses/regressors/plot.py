"""In-context learning compared with regressions, by number of demonstrations."""

from collections.abc import Mapping, Sequence

import polars as pl
from matplotlib.axes import Axes

from anchorflow.present import style as look
from anchorflow.present.style import Paths, Style, small_multiples

# Okabe-Ito colors
_METHODS = {
    "in_context": ("in-context learning", "#000000", "o", "-"),
    "encoder": ("encoder, kernel regression", "#0072B2", "s", "--"),
    "encoder_logistic": ("encoder, logistic regression", "#56B4E9", "^", ":"),
    "head_chosen_here": ("best head, chosen on the same texts", "#E69F00", "v", ":"),
    "head_held_out": ("best head, held out", "#D55E00", "D", "-."),
}
_FURTHER = (("#009E73", "P"), ("#CC79A7", "p"), ("#F0E442", "*"))  # further encoders, in turn


def plot_regressors(
    summary: pl.DataFrame,
    labels: Mapping[str, Sequence[str]],
    style: Style,
    confidence: float,
    paths: Paths,
) -> None:
    """Plot the table ``regressors_summary`` of one model, one column per task.

    Top: accuracy. Bottom: agreement with the model's predictions for the same demonstrations; for
    the model itself, with its predictions for all demonstrations.
    """
    tasks = look.tasks_in_order(summary)
    plotted = summary.filter(pl.col("weights").is_null() | (pl.col("weights") == "max"))
    title = "In-context learning compared with regressions on the same demonstrations,\n"
    title += look.describe(summary, confidence, "error bars")
    with small_multiples(style, 2, len(tasks), title, share=False, share_y=True) as (figure, axes):
        for panels, measure in zip(axes, ("accuracy", "agreement"), strict=True):
            for panel, task in zip(panels, tasks, strict=True):
                _plot_methods(panel, plotted.filter(task=task, measure=measure))
        for panel, task in zip(axes[0], tasks, strict=True):
            look.plot_chance(panel, look.chance_levels(labels)[task])
            panel.set_title(task)
        for panel in axes[1]:
            panel.set_xlabel("demonstrations\nper label")
        look.name_y(axes[0], "accuracy")
        look.name_y(axes[1], "agreement\nwith the model")
        look.legend_of(figure, axes[0])
        look.save(figure, paths)


def _plot_methods(axes: Axes, rows: pl.DataFrame) -> None:
    methods = dict(_METHODS)
    others = rows["method"].unique(maintain_order=True)
    for number, method in enumerate(name for name in others if name not in _METHODS):
        color, marker = _FURTHER[number % len(_FURTHER)]
        name = f"{method.removeprefix('encoder_')}, kernel regression"
        methods[method] = (name, color, marker, "--")
    # The averages over tasks of numbers of demonstrations are numbers that no task has.
    counts = rows["demonstrations_per_label"].unique().sort(nulls_last=True).to_list()
    for number, (method, (name, color, marker, dashes)) in enumerate(methods.items()):
        line = rows.filter(method=method).sort("demonstrations")
        shift = 0.08 * (number - 2)  # side by side at equal numbers of demonstrations
        axes.errorbar(
            [counts.index(count) + shift for count in line["demonstrations_per_label"]],
            line["mean"],
            yerr=look.spread(line),
            color=color,
            marker=marker,
            markersize=3.5,
            linestyle=dashes,
            elinewidth=0.6,
            linewidth=1.0,
            label=name,
        )
    axes.set_xticks(range(len(counts)), ["all" if count is None else count for count in counts])
    axes.set_xlim(-0.4, len(counts) - 0.6)
    axes.set_ylim(0, 1.04)
