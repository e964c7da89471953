"""Accuracy and time per query with compressed demonstrations ([A] Table 3)."""

from collections.abc import Mapping
from typing import Any

from anchorflow.config.analysis import ANCHORS, Analysis, Measured, Presented
from anchorflow.config.errors import InputError
from anchorflow.config.table import Column, table
from anchorflow.schemas import fields as f

TIMING = table(
    "timing",
    "one per method of answering queries, up to the first token; machine-dependent",
    *f.CELL,
    Column(
        "way",
        "string",
        "full_prompt: demonstrations and query are run each time; the others keep a cache of the "
        "demonstrations, as in the compression table",
    ),
    Column("batch_size", "int32", "queries answered together", "queries"),
    Column("milliseconds", "float64", "median time per query", "ms"),
    Column("low", "float64", "lower quartile over queries and repetitions", "ms"),
    Column("high", "float64", "upper quartile over queries and repetitions", "ms"),
    Column("runs", "int32", "batches timed", "batches"),
    Column(
        "build",
        "float64",
        "median time to build the cache; null for re-weighting, which also requires a fit",
        "ms",
    ),
    Column(
        "break_even",
        "float64",
        "queries after which building the cache pays off compared with full prompts; null if "
        "never, or if not timed",
        "queries",
    ),
    Column("prompt_tokens", "float64", "mean length of the full prompts", "tokens"),
    Column(
        "kept",
        "int32",
        "tokens in the cache, in each layer and head; if layers differ, their mean, rounded up",
        "tokens",
    ),
    Column("kept_bytes", "int64", "size of the cache", "bytes"),
    Column("device", "string", "cpu, or the GPU's name"),
    Column("threads", "int32", "CPU threads", "threads"),
    Column(
        "other_work",
        "float64",
        "share of the machine's cores that other processes kept busy meanwhile; null if unknown",
        "1",
    ),
    keys="model task seed way",
)


_READS = {"timing": "timing", "compression": "summaries/compression"}


def check(config: Mapping[str, Any]) -> None:
    """Refuse batches of unequal sizes."""
    queries, together = config["timing"]["queries"], config["timing"]["batch_size"]
    if queries % together:
        raise InputError(
            f"timing.batch_size: {together} does not divide timing.queries ({queries}); choose "
            "numbers that fit, so that all batches are of one size."
        )


ANALYSIS = Analysis(
    subject="accuracy and time per query of {}",
    category=ANCHORS,
    measured=Measured(first_seed=True, repeatable=False),
    figure=Presented("Accuracy against time per query (Table 3 of [A])", _READS, ("labels",)),
    table=Presented("Accuracy and time per query (Table 3 of [A])", _READS),
    check=check,
)
