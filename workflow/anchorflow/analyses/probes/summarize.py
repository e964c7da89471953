"""What ridge probes decode from keys and values, compared with chance ([K] §5.4)."""

import numpy as np
import polars as pl

from anchorflow.analyses.probes import PROBES_SUMMARY
from anchorflow.arrays import Array
from anchorflow.config.table import DIFFERENCE, SHARE
from anchorflow.schemas.frames import frame_schema
from anchorflow.statistics.by_task import AVERAGE, mean_by_task, summary_rows, summary_table

MEASURES = ("accuracy", "shuffled", "gain")
BOUNDS = {"accuracy": SHARE, "shuffled": SHARE, "gain": DIFFERENCE}
_KEYS = ["layer", "offset", "source", "target"]


def with_texts(probed: pl.DataFrame, samples: pl.DataFrame) -> pl.DataFrame:
    """Add the column ``example``: the row of each demonstration within the train split.

    It identifies the texts that seeds share, as rows of the test split do elsewhere.

    ``samples`` have the same demonstrations as ``probed``, which all examples of a seed share.
    """
    cell, first = ["task", "seed"], pl.col("demonstration_rows").first()
    demonstrations = samples.group_by(cell).agg(example=first).explode("example")
    numbered = demonstrations.with_columns(
        demonstration=pl.int_range(pl.len()).over(cell).cast(pl.Int32),
        example=pl.col("example").cast(pl.Int64),
    )
    return probed.join(numbered, [*cell, "demonstration"], "left", maintain_order="left")


def summarize_probes(
    probes: pl.DataFrame, prompts: pl.DataFrame, samples: pl.DataFrame, confidence: float
) -> pl.DataFrame:
    """Accuracy of the probes of every layer and offset, averaged over heads, with intervals.

    ``prompts`` and ``samples`` have the same demonstrations as ``probes``. Intervals are over seeds
    and demonstrations. There are no rows if no task has two demonstrations of each label.
    """
    if probes.is_empty():
        return pl.DataFrame(schema=frame_schema(PROBES_SUMMARY))
    index = ["task", "seed", "demonstration", *_KEYS]
    rates = probes.group_by(index).agg(
        accuracy=pl.col("correct").cast(pl.Float64).mean(),
        shuffled=pl.col("shuffled").cast(pl.Float64).mean(),
    )
    gains = rates.with_columns(gain=pl.col("accuracy") - pl.col("shuffled"))
    means = with_texts(gains.unpivot(MEASURES, index=index, variable_name="measure"), samples)
    keys = means.select(*_KEYS, pl.col("measure").cast(pl.Enum(MEASURES))).unique()
    keys = keys.sort(*_KEYS, "measure").with_columns(pl.col("measure").cast(pl.String))
    tasks = prompts["task"].unique(maintain_order=True).to_list()
    estimates = mean_by_task(means, tasks, lambda seed: _values(seed, keys), len(keys))
    decoded = means.group_by("task", *keys.columns).agg(decoded=pl.len())
    total = decoded.group_by(keys.columns).agg(pl.col("decoded").sum())
    both = pl.concat([decoded, total.select(pl.lit(AVERAGE).alias("task"), pl.all())])
    source = probes.rename({"demonstration": "example"})
    rows = summary_rows(estimates, keys, source, confidence, BOUNDS)
    counted = rows.join(both, on=["task", *keys.columns], how="left", maintain_order="left")
    known = counted.with_columns(pl.col("decoded").fill_null(0))
    return summary_table(known, probes, PROBES_SUMMARY)


def _values(rows: pl.DataFrame, keys: pl.DataFrame) -> Array:
    """[demonstrations, keys] of one task and seed; NaN where a demonstration lacks an offset."""
    every = rows.select("example").unique().sort("example")
    filled = every.join(keys, how="cross").join(
        rows, on=["example", *keys.columns], how="left", maintain_order="left"
    )
    column: Array = filled["value"].fill_null(np.nan).to_numpy()
    return column.reshape(len(every), len(keys))
