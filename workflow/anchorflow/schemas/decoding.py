"""Table of decoding: one per (task or average, layer, offset, source, target, measure)."""

import pyarrow as pa

from anchorflow.schemas import fields as f

DECODING = f.table(
    "decoding",
    "one per (task or average, layer, offset, source, target, measure)",
    *f.OF_TASK,
    f.LAYER,
    f.OFFSET,
    f.SOURCE,
    f.DECODED,
    f.field(
        "measure",
        pa.string(),
        "accuracy: of ridge probes on held-out demonstrations, mean over heads; shuffled: the same "
        "for shuffled targets, which is chance; gain: the difference of the two",
    ),
    f.field("mean", pa.float64(), "mean over seeds", "1"),
    f.field("low", pa.float64(), "lower end of the interval", "as mean"),
    f.field("high", pa.float64(), "upper end of the interval", "as mean"),
    f.field("decoded", pa.int32(), "demonstrations averaged, summed over seeds", "demonstrations"),
    f.field("seeds", pa.int32(), "seeds averaged", "seeds"),
    keys="model task layer offset source target measure",
)
