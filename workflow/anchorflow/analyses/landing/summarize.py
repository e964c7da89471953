"""Where on the demonstrations attention lands, by segment and by place ([K] §5.1, Fig. 2)."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import polars as pl

from anchorflow.analyses.landing import LANDING_SUMMARY
from anchorflow.arrays import Array
from anchorflow.config.table import SHARE
from anchorflow.schemas.fields import SINK
from anchorflow.statistics import by_task
from anchorflow.statistics.by_task import AVERAGE

Measures = Callable[[pl.DataFrame], tuple[pl.DataFrame, Array]]
_OF_SEGMENTS = ("per_token", "share", "length", "width")
MEASURES = (*_OF_SEGMENTS, "whole")
BOUNDS = dict.fromkeys(MEASURES, SHARE)


def segment_measures(segments: pl.DataFrame) -> tuple[pl.DataFrame, Array]:
    """Attention to each segment and to all, averaged over heads, for every example of one seed.

    Each value has a key (layer, segment, measure); the values are [examples, keys], in order of
    examples. Attention per token is NaN for segments without tokens; ``whole``, that to all
    demonstrations, has no segment, or, for what sinks take, ``SINK``.
    """
    every = segments.group_by("example", "layer", "segment", maintain_order=True).agg(
        pl.col("attention").cast(pl.Float64).mean(), pl.col("tokens", "width").first()
    )
    means = every.filter(pl.col("segment") != SINK)
    attention, tokens, prompt = pl.col("attention"), pl.col("tokens"), ("example", "layer")
    measured = means.with_columns(
        per_token=pl.when(tokens > 0).then(attention / tokens),
        share=attention / attention.sum().over(prompt),
        length=tokens / tokens.sum().over(prompt),
    )
    of_segments = measured.unpivot(
        _OF_SEGMENTS, index=["example", "layer", "segment"], variable_name="measure"
    )
    whole = means.group_by("example", "layer", maintain_order=True).agg(
        pl.lit(None, pl.String).alias("segment"),
        pl.lit("whole").alias("measure"),
        pl.col("attention").sum().alias("value"),
    )
    of_sinks = every.filter(segment=SINK).select(
        "example", "layer", "segment", pl.lit("whole").alias("measure"), value="attention"
    )
    long = pl.concat([of_segments, whole, of_sinks]).sort("example", maintain_order=True)
    keys = long.filter(pl.col("example") == long["example"][0]).select(
        "layer", "segment", "measure"
    )
    values = long["value"].fill_null(np.nan).to_numpy().reshape(-1, len(keys))
    return keys, values


def place_measures(places: pl.DataFrame) -> tuple[pl.DataFrame, Array]:
    """As :func:`segment_measures`, for the table ``places``; its only measure is per token."""
    rows = places.sort("example", "layer", "place")
    keys = rows.filter(pl.col("example") == rows["example"][0]).select(
        "layer", "place", pl.lit("per_token").alias("measure")
    )
    return keys, rows["attention"].cast(pl.Float64).to_numpy().reshape(-1, len(keys))


def at_keys(measured: pl.DataFrame, values: Array, keys: pl.DataFrame) -> Array:
    """Values by a task's own keys as [examples, keys], NaN where the task lacks the segment."""
    numbered = measured.with_row_index("column")
    joined = keys.join(
        numbered, on=keys.columns, how="left", maintain_order="left", nulls_equal=True
    )
    columns = joined["column"]
    whole = np.full((len(values), len(keys)), np.nan)
    whole[:, columns.is_not_null().to_numpy()] = values[:, columns.drop_nulls().to_numpy()]
    return whole


def _summarized_keys(
    measured: Mapping[str, pl.DataFrame], keys: pl.DataFrame, tasks: Sequence[str]
) -> pl.DataFrame:
    """The keys of each task's rows; those of the average are common to all tasks."""
    common = keys
    for of_task in measured.values():
        common = common.join(
            of_task, on=keys.columns, how="semi", maintain_order="left", nulls_equal=True
        )
    of_tasks = {**dict.fromkeys(tasks, common), **measured, AVERAGE: common}
    return pl.concat(
        rows.with_columns(pl.lit(task).alias("task")) for task, rows in of_tasks.items()
    )


def summarize_landing(
    segments: pl.DataFrame, places: pl.DataFrame, prompts: pl.DataFrame, confidence: float
) -> pl.DataFrame:
    """Attention by segment and by place, per layer, with intervals.

    Segments depend on the fields of a task; the average has those that all tasks share.
    """
    by_task.require_examples(segments)
    tasks = prompts["task"].unique(maintain_order=True).to_list()
    parts = []
    for measured, of_seed in ((segments, segment_measures), (places, place_measures)):
        keys_of_tasks = {
            task: of_seed(next(by_task.per_seed(rows)))[0]
            for (task,), rows in measured.group_by("task", maintain_order=True)
        }
        keys = pl.concat(keys_of_tasks.values()).unique(maintain_order=True)

        def values(
            rows: pl.DataFrame, of_seed: Measures = of_seed, keys: pl.DataFrame = keys
        ) -> Array:
            return at_keys(*of_seed(rows), keys)

        estimates = by_task.mean_by_task(measured, tasks, values, len(keys))
        found = by_task.summary_rows(estimates, keys, measured, confidence, BOUNDS)
        parts.append(
            found.join(
                _summarized_keys(keys_of_tasks, keys, tasks),
                on=["task", *keys.columns],
                how="semi",
                maintain_order="left",
                nulls_equal=True,
            )
        )
    rows = pl.concat(parts, how="diagonal")
    skipped = by_task.skipped_prompts(prompts, "kernel")
    return by_task.summary_table(rows, segments, LANDING_SUMMARY, skipped)
