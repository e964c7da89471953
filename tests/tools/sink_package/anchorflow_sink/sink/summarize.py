"""Attention to the first tokens by layer, with intervals."""

import polars as pl

from anchorflow.statistics.by_task import require_examples
from anchorflow.statistics.settings import estimate_settings, settings_of, summarize_settings
from anchorflow_sink.sink import SINK_SUMMARY


def summarize_sink(sink: pl.DataFrame, prompts: pl.DataFrame, confidence: float) -> pl.DataFrame:
    """The attention of every layer, and that of even attention."""
    require_examples(sink)
    layers = settings_of(sink, SINK_SUMMARY)
    return summarize_settings(
        SINK_SUMMARY,
        layers,
        lambda rows: estimate_settings(rows, layers, SINK_SUMMARY.measured),
        sink,
        prompts,
        confidence,
    )
