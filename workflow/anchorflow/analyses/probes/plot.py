"""What ridge probes decode from keys and values around label words, by layer."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import polars as pl

from anchorflow.present.style import (
    MARKERS,
    legend_below,
    number_layers,
    save,
    small_multiples,
    with_controls,
)
from anchorflow.statistics.by_task import AVERAGE

_TARGETS = {"next_token": "most likely token after the text", "label": "label"}


def plot_probes(
    summary: pl.DataFrame,
    style: Mapping[str, Any],
    confidence: float,
    paths: Mapping[str, str | Path],
) -> None:
    """Plot the table ``probes_summary`` of one model, averaged over tasks and heads.

    Top: from keys; bottom: from values; by column, what is decoded. A single target has keys and
    values side by side. One line per offset; gray: probes of shuffled targets, averaged over
    offsets.
    """
    averaged = summary.filter(pl.col("task") == AVERAGE)
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
                rows = averaged.filter(pl.col("source") == source, pl.col("target") == target)
                chance = (
                    rows.filter(pl.col("measure") == "shuffled")
                    .group_by("layer")
                    .agg(pl.col("mean").mean())
                    .sort("layer")
                )
                if with_controls(style):
                    panel.plot(
                        chance["layer"], chance["mean"], color="0.6", label="shuffled targets"
                    )
                for number, offset in enumerate(offsets):
                    line = rows.filter(
                        pl.col("measure") == "accuracy", pl.col("offset") == offset
                    ).sort("layer")
                    color = colors(number)
                    panel.fill_between(
                        line["layer"],
                        line["low"],
                        line["high"],
                        color=color,
                        alpha=0.1,
                        linewidth=0,
                    )
                    panel.plot(
                        line["layer"],
                        line["mean"],
                        color=color,
                        marker=MARKERS[number % len(MARKERS)],
                        label=f"{offset:+d}".replace("-", "−") if offset else "label word",
                    )
                if alone:
                    panel.set_title(f"{_TARGETS[target]}, from {source}s")
                elif row == 0:
                    panel.set_title(_TARGETS[target])
                panel.set_ylim(0, 1.04)
                number_layers(panel.xaxis)
                if alone and row == 0:
                    panel.set_ylabel("accuracy of probes")
                elif not alone and column == 0:
                    panel.set_ylabel(f"accuracy of probes\nof {source}s")
                if alone or row == 1:
                    panel.set_xlabel("layer")
        handles, names = axes[0][0].get_legend_handles_labels()
        legend_below(
            figure, handles, names, title="token that is probed, counted from the label word"
        )
        save(figure, paths)
