"""Tables of reweighting."""

import pyarrow as pa

from anchorflow.schemas.fields import (
    DEMONSTRATION,
    DEMONSTRATION_LABEL,
    EXAMPLE,
    HEAD,
    LABEL,
    LAYER,
    METHOD,
    MODEL,
    SCORED,
    SEED,
    TASK,
    field,
    table,
)

_LEARNING_RATE = field("learning_rate", pa.float64(), "step size of Adam", "1")

BETA = table(
    "beta",
    "one per (layer, head, demonstration)",
    MODEL,
    TASK,
    SEED,
    LAYER,
    HEAD,
    DEMONSTRATION,
    DEMONSTRATION_LABEL,
    field(
        "beta",
        pa.float32(),
        "β; attention to all tokens of the label word is multiplied by exp(β)",
        "1",
    ),
    keys="model task seed layer head demonstration",
)

DESCENT = table(
    "descent",
    "one per (learning rate, fold, step)",
    MODEL,
    TASK,
    SEED,
    _LEARNING_RATE,
    field(
        "fold",
        pa.int32(),
        "held-out half of the training texts, 0 or 1; null: the fit to all of them",
    ),
    field("epoch", pa.int32(), "epoch, counted from 0"),
    field("step", pa.int32(), "step of gradient descent, counted from 0 over all epochs"),
    field("loss", pa.float64(), "mean cross-entropy of the step's texts before the step", "nats"),
    keys="model task seed learning_rate fold step",
)

LEARNING_RATES = table(
    "learning_rates",
    "one per learning rate in the configuration",
    MODEL,
    TASK,
    SEED,
    _LEARNING_RATE,
    field(
        "held_out_loss",
        pa.float64(),
        "mean cross-entropy on held-out training texts; infinite if a fit diverged; null if there "
        "is only one rate",
        "nats",
    ),
    field("chosen", pa.bool_(), "whether β is fitted with this rate"),
    keys="model task seed learning_rate",
)

REWEIGHTING = table(
    "reweighting",
    "one per (example, method), demonstrations fixed",
    MODEL,
    TASK,
    SEED,
    EXAMPLE,
    METHOD,
    LABEL,
    *SCORED,
    keys="model task seed example method",
)
