"""Table of attention: one per (example, layer, head, demonstration)."""

import pyarrow as pa

from anchorflow.schemas import fields as f

ATTENTION = f.table(
    "attention",
    "one per (example, layer, head, demonstration), demonstrations fixed",
    *f.CELL,
    f.EXAMPLE,
    f.LAYER,
    f.HEAD,
    f.DEMONSTRATION,
    f.DEMONSTRATION_LABEL,
    f.field(
        "attention_label",
        pa.float32(),
        "A(q, p_k): attention from the target, which predicts first tokens whatever scoring is, to "
        "the label word, summed over its tokens",
        "probability",
    ),
    f.field(
        "attention_max",
        pa.float32(),
        "largest attention from the target to a token of the demonstration, other than the "
        "prompt's first",
        "probability",
    ),
    f.field(
        "attention_mean",
        pa.float32(),
        "mean attention from the target to the demonstration's tokens, other than the prompt's "
        "first",
        "probability",
    ),
    keys="model task seed example layer head demonstration",
)
