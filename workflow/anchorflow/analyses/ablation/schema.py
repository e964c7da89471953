"""Tables of ablation: what is measured, and its summary."""

from anchorflow.config.table import Column, table
from anchorflow.schemas import fields as f

SCORE = Column(
    "score",
    "string",
    "score whose highest heads are taken away, as in the table heads; a without b: heads of the "
    "highest a among those that are not of the highest b; none: the intact run; alone: the intact "
    "model without demonstrations",
)
CONTROL = Column(
    "control", "bool", "true: instead of these heads, as many random ones of the same layers"
)
WHERE = Column(
    "where",
    "string",
    "at which tokens the heads' outputs are replaced: target, everywhere; none: nowhere",
)
BY = Column(
    "by",
    "string",
    "what replaces a head's output: mean, over the task's other prompts, classes counting alike "
    "(everywhere: over all tokens of the seed's prompts); zero; other, that in the next prompt; "
    "none",
)
SHARE = Column("share", "float64", "share of all heads that are taken away", "1")

ABLATION = table(
    "ablation",
    "one per (example, score, control, draw, where, by, share), demonstrations fixed",
    *f.CELL,
    f.EXAMPLE,
    SCORE,
    CONTROL,
    Column("draw", "int32", "draw of the random heads, counted from 0"),
    WHERE,
    BY,
    SHARE,
    Column("heads", "int32", "number of heads taken away", "heads"),
    f.LABEL,
    *f.PREDICTED,
    Column(
        "label_mass",
        "float32",
        "probability, in the whole vocabulary, that the next token is the first of a label word",
        "probability",
    ),
    Column(
        "in_labels",
        "bool",
        "whether the likeliest token of the whole vocabulary is the first of a label word",
    ),
    Column(
        "divergence",
        "float64",
        "Kullback-Leibler divergence of the next-token distribution over the whole vocabulary from "
        "that of the intact run",
        "nats",
    ),
    keys="model task seed example score control draw where by share",
)

ABLATION_SUMMARY = table(
    "ablation_summary",
    "one per (task or average, score, control, where, by, share, measure)",
    *f.OF_TASK,
    SCORE,
    CONTROL,
    WHERE,
    BY,
    Column("share", "float64", "share of all heads that are taken away; null for areas", "1"),
    Column(
        "measure",
        "string",
        "accuracy; in_labels, label_mass, divergence: means of these columns; accuracy_area, "
        "in_labels_area: mean over the share, by the trapezoid rule; accuracy_log_area, "
        "in_labels_log_area: mean over its logarithm",
    ),
    Column("mean", "float64", "mean over seeds and draws", "1 or nats"),
    *f.INTERVAL,
    keys="model task score control where by share measure",
)
