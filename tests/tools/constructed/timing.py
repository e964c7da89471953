"""Timings of every way, and the accuracy that goes with them."""

import polars as pl

from anchorflow.analyses.compression import COMPRESSION_SUMMARY
from anchorflow.analyses.timing import TIMING
from constructed.rows import frame

WAYS = ["full_prompt", "full", "text_anchor", "hidden_anchor", "reweighted", "reweighted_anchor"]


def timings_of(task: str, milliseconds: float) -> pl.DataFrame:
    """Timings of one task: the second way is twice as fast as the first, the third thrice."""
    constants = {
        "batch_size": 1,
        "runs": 4,
        "build": 30.0,
        "break_even": 4.2,
        "prompt_tokens": 99.6,
        "kept": 7,
        "kept_bytes": 2_500_000,
        "device": "cpu",
        "threads": 2,
    }
    rows = [
        {**constants, "way": way, "milliseconds": milliseconds / (place + 1), "low": 1.0}
        | {"high": 50.0}
        for place, way in enumerate(WAYS)
    ]
    return frame(rows, TIMING, model="m", task=task)


def retention_of(tasks: list[str]) -> pl.DataFrame:
    """An accuracy of 0.5 with everything cached, and of 0.75 with anything else."""
    rows = [
        {"task": task, "method": method, "share": share, "measure": measure}
        | {"mean": 0.5 if method == "full" else 0.75, "low": 0.4, "high": 0.9, "examples": 6}
        | {"texts": 3, "seeds": 2, "draws": 1, "skipped": 0, "published": None}
        for task in [*tasks, "average"]
        for method in WAYS[1:]
        for share in (None, 0.5)
        for measure in ("accuracy", "label_loyalty")
    ]
    return frame(rows, COMPRESSION_SUMMARY, model="m")
