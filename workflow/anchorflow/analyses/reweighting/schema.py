"""Tables of reweighting: what is measured, and its summary."""

from anchorflow.config.table import DIFFERENCE, SHARE, Column, Measure, table
from anchorflow.schemas import fields as f
from anchorflow.schemas import measures as m
from anchorflow.schemas.summaries import summary_of

_LEARNING_RATE = Column("learning_rate", "float64", "step size of Adam", "1")


DESCENT = table(
    "descent",
    "one per (learning rate, fold, step)",
    *f.CELL,
    _LEARNING_RATE,
    Column(
        "fold", "int32", "held-out half of the training texts, 0 or 1; null: the fit to all of them"
    ),
    Column("epoch", "int32", "epoch"),
    Column("step", "int32", "step of gradient descent, over all epochs"),
    Column("loss", "float64", "mean cross-entropy of the step's texts before the step", "nats"),
    keys="model task seed learning_rate fold step",
)

LEARNING_RATES = table(
    "learning_rates",
    "one per learning rate in the configuration",
    *f.CELL,
    _LEARNING_RATE,
    Column(
        "held_out_loss",
        "float64",
        "mean cross-entropy on held-out training texts; infinite if a fit diverged; null if there "
        "is only one rate",
        "nats",
    ),
    Column("chosen", "bool", "whether β is fitted with this rate"),
    keys="model task seed learning_rate",
)

REWEIGHTING = table(
    "reweighting",
    "one per (example, method), demonstrations fixed",
    *f.CELL,
    f.EXAMPLE,
    f.METHOD,
    f.LABEL,
    *f.SCORED,
    keys="model task seed example method",
)

REWEIGHTING_SUMMARY = summary_of(
    "reweighting",
    (f.METHOD,),
    (
        m.ACCURACY,
        Measure("macro_f1", "mean F1 over classes", SHARE),
        m.ACCURACY_GAINS[0],
        Measure("macro_f1_gain", "macro_f1 minus vanilla's", DIFFERENCE),
        *m.ACCURACY_GAINS[1:],
        *m.IN_VOCABULARY,
    ),
    (
        f.SKIPPED,
        Column("published", "float64", "[A] Table 1, if model and task are the paper's", "1"),
    ),
    about="gains are over vanilla, on the same texts; ",
)
