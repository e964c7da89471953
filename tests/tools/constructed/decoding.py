"""Summaries of probes on constructed keys and values."""

import polars as pl

from anchorflow.measure.probes import measure_probes
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.probes import PROBES
from anchorflow.summarize.decoding import summarize_decoding
from constructed.kernel import prompts
from constructed.probes import states
from constructed.samples import samples


def summary() -> pl.DataFrame:
    """A summary of two tasks with two seeds each."""
    tasks, seeds = ("news", "reviews"), (0, 1)
    probes = [measure_probes(states(seed, task), 0.01) for task in tasks for seed in seeds]
    # Seeds draw demonstrations of their own.
    shown = samples({seed: range(12 * seed, 12 * seed + 12) for seed in seeds}, tasks)
    return summarize_decoding(pl.concat(probes), prompts(), shown, 0.9)


def summary_of_nothing() -> pl.DataFrame:
    """A summary of no probes at all."""
    return summarize_decoding(
        pl.DataFrame(schema=frame_schema(PROBES)), prompts(), samples({}), 0.9
    )
