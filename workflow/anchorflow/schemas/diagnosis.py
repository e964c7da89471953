"""Table of diagnosis: one per (heads, layer, pair of labels)."""

import pyarrow as pa

from anchorflow.schemas import fields as f

_PAIR = (
    f.field("label", pa.int32(), "one label of a pair, index into the label words"),
    f.field("other", pa.int32(), "the other label of the pair, the larger index"),
)

DIAGNOSIS = f.table(
    "diagnosis",
    "one per (heads, layer, pair of labels); at the target, which predicts first tokens whatever "
    "scoring is",
    *f.CELL,
    f.field(
        "heads",
        pa.string(),
        "concatenated: keys and queries of all heads as one vector, along its leading principal "
        "components; separate: along all components within each head, summed over heads",
    ),
    f.LAYER,
    *_PAIR,
    f.field(
        "distance",
        pa.float64(),
        "distance of the label words' keys along the principal components of the targets' queries, "
        "divided by the largest in the layer, so 1 for two labels; null if the queries do not vary",
        "1",
    ),
    keys="model task seed heads layer label other",
)
