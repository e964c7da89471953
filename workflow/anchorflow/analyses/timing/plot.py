"""Accuracy against time per query, for every way to answer queries."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.axes import Axes

from anchorflow.analyses.compression.styles import LOOKS, Look
from anchorflow.config.errors import InputError
from anchorflow.present.style import (
    chance_levels,
    describe,
    legend_below,
    legend_entries,
    name_y,
    plot_chance,
    save,
    small_multiples,
    spread,
    tasks_in_order,
)
from anchorflow.statistics.by_task import AVERAGE


def accuracy_and_time(timing: pl.DataFrame, retention: pl.DataFrame) -> pl.DataFrame:
    """Accuracy and time per query of every way, per task and averaged over tasks.

    ``retention`` is the table ``compression_summary``. Full prompts and a cache of all tokens have
    the same predictions, so the accuracy of the latter stands for both. The average time is the
    mean of the tasks' medians, without quartiles.
    """
    per_task = timing.select(
        "model",
        "task",
        "way",
        "milliseconds",
        pl.col("low").alias("low_time"),
        pl.col("high").alias("high_time"),
    )
    overall = (
        per_task.drop("task")
        .group_by("model", "way", maintain_order=True)
        .agg(pl.col("milliseconds").mean())
        .with_columns(task=pl.lit(AVERAGE), low_time=pl.lit(None), high_time=pl.lit(None))
    )
    accuracy = retention.filter(pl.col("measure") == "accuracy", pl.col("share").is_null()).select(
        "model", "task", pl.col("method").alias("way"), "mean", "low", "high"
    )
    plain = accuracy.filter(pl.col("way") == "full").with_columns(way=pl.lit("full_prompt"))
    timed = pl.concat([per_task, overall.select(per_task.columns).cast(per_task.schema)])
    return timed.join(
        pl.concat([accuracy, plain]), on=["model", "task", "way"], maintain_order="left"
    )


def plot_timing(
    timing: pl.DataFrame,
    compression: pl.DataFrame,
    labels: Mapping[str, Sequence[str]],
    style: Mapping[str, Any],
    confidence: float,
    paths: Mapping[str, str | Path],
) -> None:
    """Plot accuracy against time per query of one model, one panel per task and for the average."""
    if timing.is_empty():
        raise InputError(
            "no prompt of the first seed fits the model's context, so nothing was timed; lower "
            "demonstrations_per_label or choose a model with a longer context."
        )
    points = accuracy_and_time(timing, compression).filter(pl.col("mean").is_not_null())
    tasks = [task for task in tasks_in_order(compression) if task in points["task"]]
    title = (
        "Accuracy and time per query, "
        + describe(compression, confidence, "vertical bars")
        + f",\nhorizontal bars quartiles of the time; timed on {timing['device'][0]}, "
        + f"{timing['threads'][0]} threads, batches of {timing['batch_size'][0]}"
    )
    with small_multiples(style, 1, len(tasks), title, share=False, share_y=True) as (
        figure,
        (panels,),
    ):
        for panel, task in zip(panels, tasks, strict=True):
            for way in points["way"].unique(maintain_order=True):
                rows = points.filter(pl.col("task") == task, pl.col("way") == way)
                _plot_way(panel, rows, LOOKS[way])
            plot_chance(panel, chance_levels(labels)[task])
            panel.set_title(task)
            panel.set_xlabel("ms per query")
            panel.set_xlim(left=0)
            panel.set_ylim(0, 1.04)
        name_y(panels, "accuracy")
        handle_of = legend_entries(panels)
        legend_below(figure, handle_of.values(), handle_of)
        save(figure, paths)


def _plot_way(axes: Axes, row: pl.DataFrame, look: Look) -> None:
    axes.errorbar(
        row["milliseconds"],
        row["mean"],
        xerr=[
            (row["milliseconds"] - row["low_time"]).clip(0).fill_null(0),
            (row["high_time"] - row["milliseconds"]).clip(0).fill_null(0),
        ],
        yerr=spread(row),
        **look.marks,
        elinewidth=0.6,
        linestyle="none",
        label=look.name,
    )
