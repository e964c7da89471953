"""Tables of ablation: what is measured, and its summary."""

import pyarrow as pa

from anchorflow.schemas import fields as f

SCORE = f.field(
    "score",
    pa.string(),
    "score whose highest heads are taken away, as in the table heads; a without b: heads of the "
    "highest a among those that are not of the highest b; none: the intact run; alone: the intact "
    "model without demonstrations",
)
CONTROL = f.field(
    "control", pa.bool_(), "true: instead of these heads, as many random ones of the same layers"
)
WHERE = f.field(
    "where",
    pa.string(),
    "at which tokens the heads' outputs are replaced: target, everywhere; none: nowhere",
)
BY = f.field(
    "by",
    pa.string(),
    "what replaces a head's output: mean, over the task's other prompts, classes counting alike "
    "(everywhere: over all tokens of the seed's prompts); zero; other, that in the next prompt; "
    "none",
)
SHARE = f.field("share", pa.float64(), "share of all heads that are taken away", "1")

ABLATION = f.table(
    "ablation",
    "one per (example, score, control, draw, where, by, share), demonstrations fixed",
    *f.CELL,
    f.EXAMPLE,
    SCORE,
    CONTROL,
    f.field("draw", pa.int32(), "draw of the random heads, counted from 0"),
    WHERE,
    BY,
    SHARE,
    f.field("heads", pa.int32(), "number of heads taken away", "heads"),
    f.LABEL,
    *f.PREDICTED,
    f.field(
        "label_mass",
        pa.float32(),
        "probability, in the whole vocabulary, that the next token is the first of a label word",
        "probability",
    ),
    f.field(
        "in_labels",
        pa.bool_(),
        "whether the likeliest token of the whole vocabulary is the first of a label word",
    ),
    f.field(
        "divergence",
        pa.float64(),
        "Kullback-Leibler divergence of the next-token distribution over the whole vocabulary from "
        "that of the intact run",
        "nats",
    ),
    keys="model task seed example score control draw where by share",
)

ABLATION_SUMMARY = f.table(
    "ablation_summary",
    "one per (task or average, score, control, where, by, share, measure)",
    *f.OF_TASK,
    SCORE,
    CONTROL,
    WHERE,
    BY,
    f.field("share", pa.float64(), "share of all heads that are taken away; null for areas", "1"),
    f.field(
        "measure",
        pa.string(),
        "accuracy; in_labels, label_mass, divergence: means of these columns; accuracy_area, "
        "in_labels_area: mean over the share, by the trapezoid rule; accuracy_log_area, "
        "in_labels_log_area: mean over its logarithm",
    ),
    f.field("mean", pa.float64(), "mean over seeds and draws", "1 or nats"),
    *f.INTERVAL,
    keys="model task score control where by share measure",
)
