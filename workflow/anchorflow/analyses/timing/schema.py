"""Tables of timing."""

import pyarrow as pa

from anchorflow.schemas import fields as f

TIMING = f.table(
    "timing",
    "one per method of answering queries, up to the first token; machine-dependent",
    *f.CELL,
    f.field(
        "way",
        pa.string(),
        "full_prompt: demonstrations and query are run each time; the others keep a cache of the "
        "demonstrations, as in the compression table",
    ),
    f.field("batch_size", pa.int32(), "queries answered together", "queries"),
    f.field("milliseconds", pa.float64(), "median time per query", "ms"),
    f.field("low", pa.float64(), "lower quartile over queries and repetitions", "ms"),
    f.field("high", pa.float64(), "upper quartile over queries and repetitions", "ms"),
    f.field("runs", pa.int32(), "batches timed", "batches"),
    f.field(
        "build",
        pa.float64(),
        "median time to build the cache; null for re-weighting, which also requires a fit",
        "ms",
    ),
    f.field(
        "break_even",
        pa.float64(),
        "queries after which building the cache pays off compared with full prompts; null if "
        "never, or if not timed",
        "queries",
    ),
    f.field("prompt_tokens", pa.float64(), "mean length of the full prompts", "tokens"),
    f.field(
        "kept",
        pa.int32(),
        "tokens in the cache, in each layer and head; if layers differ, their mean, rounded up",
        "tokens",
    ),
    f.field("kept_bytes", pa.int64(), "size of the cache", "bytes"),
    f.field("device", pa.string(), "cpu, or the GPU's name"),
    f.field("threads", pa.int32(), "CPU threads", "threads"),
    f.field(
        "other_work",
        pa.float64(),
        "share of the machine's cores that other processes kept busy meanwhile; null if unknown",
        "1",
    ),
    keys="model task seed way",
)
