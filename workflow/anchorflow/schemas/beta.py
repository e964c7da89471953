"""Table of weights β, which re-weighting fits and compression applies."""

from anchorflow.config.table import Column, table
from anchorflow.schemas import fields as f

BETA = table(
    "beta",
    "one per (layer, head, demonstration)",
    *f.CELL,
    f.LAYER,
    f.HEAD,
    f.DEMONSTRATION,
    f.DEMONSTRATION_LABEL,
    Column(
        "beta",
        "float32",
        "β; attention to all tokens of the label word is multiplied by exp(β)",
        "1",
    ),
    keys="model task seed layer head demonstration",
)
