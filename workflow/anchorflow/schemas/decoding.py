"""Table of decoding: one per (task or average, layer, offset, source, target, measure)."""

import pyarrow as pa

from anchorflow.schemas.fields import (
    AVERAGED_TASK,
    DECODED,
    LAYER,
    MODEL,
    OFFSET,
    SOURCE,
    field,
    table,
)

DECODING = table(
    "decoding",
    "one per (task or average, layer, offset, source, target, measure)",
    MODEL,
    AVERAGED_TASK,
    LAYER,
    OFFSET,
    SOURCE,
    DECODED,
    field(
        "measure",
        pa.string(),
        "accuracy: of ridge probes on held-out demonstrations, mean over heads; shuffled: the same "
        "for shuffled targets, which is chance; gain: the difference of the two",
    ),
    field("mean", pa.float64(), "mean over seeds", "1"),
    field("low", pa.float64(), "lower end of the interval", "as mean"),
    field("high", pa.float64(), "upper end of the interval", "as mean"),
    field("decoded", pa.int32(), "demonstrations averaged, summed over seeds", "demonstrations"),
    field("seeds", pa.int32(), "seeds averaged", "seeds"),
    keys="model task layer offset source target measure",
)
