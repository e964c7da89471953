"""Table of weights β, which re-weighting fits and compression applies."""

import pyarrow as pa

from anchorflow.schemas import fields as f

BETA = f.table(
    "beta",
    "one per (layer, head, demonstration)",
    *f.CELL,
    f.LAYER,
    f.HEAD,
    f.DEMONSTRATION,
    f.DEMONSTRATION_LABEL,
    f.field(
        "beta",
        pa.float32(),
        "β; attention to all tokens of the label word is multiplied by exp(β)",
        "1",
    ),
    keys="model task seed layer head demonstration",
)
