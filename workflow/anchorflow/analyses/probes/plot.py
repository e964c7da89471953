"""What ridge probes decode from keys and values around label words, by layer."""

import matplotlib as mpl
import polars as pl

from anchorflow.present import style as look
from anchorflow.present.style import Paths, Style, small_multiples
from anchorflow.statistics.by_task import AVERAGE

_TARGETS = {"next_token": "most likely token after the text", "label": "label"}


def plot_probes(summary: pl.DataFrame, style: Style, confidence: float, paths: Paths) -> None:
    """Plot the table ``probes_summary`` of one model, averaged over tasks and heads.

    Top: from keys; bottom: from values; by column, what is decoded. A single target has keys and
    values side by side. One line per offset; gray: probes of shuffled targets, averaged over
    offsets.
    """
    averaged = summary.filter(task=AVERAGE)
    offsets = averaged["offset"].unique().sort().to_list()
    colors = mpl.colormaps["viridis"].resampled(len(offsets) + 1)
    title = "Ridge probes around label words, averaged over tasks"
    for counts in averaged.select("model", "decoded", "seeds").head(1).iter_rows(named=True):
        title += (
            f",\n{counts['model']}: {counts['decoded']} demonstrations over {counts['seeds']} "
            f"seeds; bands are {confidence:.0%} intervals"
        )
    if averaged.is_empty():
        title += ": nothing, since no task has two demonstrations of each label"
    decoded = [of for of in _TARGETS if of in averaged["target"]] or list(_TARGETS)
    alone = len(decoded) == 1
    with small_multiples(style, 1 if alone else 2, 2, title, share_y=True) as (figure, axes):
        for row, source in enumerate(("key", "value")):
            for column, target in enumerate(decoded):
                panel = axes[0][row] if alone else axes[row][column]
                rows = averaged.filter(source=source, target=target)
                if look.with_controls(style):
                    shuffled = rows.filter(measure="shuffled").group_by("layer")
                    chance = shuffled.agg(pl.col("mean").mean()).sort("layer")
                    name = "shuffled targets"
                    panel.plot(chance["layer"], chance["mean"], color="0.6", label=name)
                for number, offset in enumerate(offsets):
                    line = rows.filter(measure="accuracy", offset=offset)
                    name = f"{offset:+d}".replace("-", "−") if offset else "label word"
                    color = colors(number)
                    look.plot_line(panel, line, color, number, name, alpha=0.1, linestyle="-")
                if alone:
                    panel.set_title(f"{_TARGETS[target]}, from {source}s")
                elif row == 0:
                    panel.set_title(_TARGETS[target])
                panel.set_ylim(0, 1.04)
                look.number_layers(panel.xaxis)
                if alone and row == 0:
                    panel.set_ylabel("accuracy of probes")
                elif not alone and column == 0:
                    panel.set_ylabel(f"accuracy of probes\nof {source}s")
                if alone or row == 1:
                    panel.set_xlabel("layer")
        handles, names = axes[0][0].get_legend_handles_labels()
        look.legend_below(
            figure, handles, names, title="token that is probed, counted from the label word"
        )
        look.save(figure, paths)
