"""Tables of probes: what is measured, and its summary."""

import pyarrow as pa

from anchorflow.schemas import fields as f

PROBES = f.table(
    "probes",
    "one per (layer, key-value head, offset, source, target, demonstration)",
    *f.CELL,
    f.LAYER,
    f.field("head", pa.int32(), "key-value head"),
    f.OFFSET,
    f.SOURCE,
    f.DECODED,
    f.DEMONSTRATION,
    f.field("correct", pa.bool_(), "whether a probe fitted to the other folds predicts the target"),
    f.field(
        "shuffled",
        pa.float32(),
        "share of correct predictions over shuffles of the targets, which is chance; labels are "
        "shuffled within rounds, each of which has every label once",
        "1",
    ),
    keys="model task seed layer head offset source target demonstration",
)

PROBES_SUMMARY = f.table(
    "probes_summary",
    "one per (task, layer, offset, source, target, measure)",
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
