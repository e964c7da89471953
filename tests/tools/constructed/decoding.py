"""Summaries of probes on constructed keys and values."""

import polars as pl

from anchorflow.measure.probes import measure_probes
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.probes import PROBES
from anchorflow.summarize.decoding import summarize_decoding
from constructed.kernel import prompts
from constructed.probes import states


def summary() -> pl.DataFrame:
    """A summary of two tasks with two seeds each."""
    probes = [measure_probes(states(seed, t), 0.01) for t in ("news", "reviews") for seed in (0, 1)]
    return summarize_decoding(pl.concat(probes), prompts(), 0.9)


def summary_of_nothing() -> pl.DataFrame:
    """A summary of no probes at all."""
    return summarize_decoding(pl.DataFrame(schema=frame_schema(PROBES)), prompts(), 0.9)
