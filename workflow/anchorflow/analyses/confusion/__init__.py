"""Confused labels and distances of their keys ([A] §3.3, eq. 11, Fig. 6, App. J)."""

from anchorflow.config.analysis import ANCHORS, Analysis, Measured, Presented, Summary
from anchorflow.config.table import Column, table
from anchorflow.schemas import fields as f

_PAIR = (
    Column("label", "int32", "one label of a pair"),
    Column("other", "int32", "the other label of the pair, the larger index"),
)

CONFUSION = table(
    "confusion",
    "one per (heads, layer, pair of labels); at the target, which predicts first tokens with "
    "either scoring",
    *f.CELL,
    Column(
        "heads",
        "string",
        "concatenated: keys and queries of all heads as one vector, along its leading principal "
        "components; separate: along all components within each head, summed over heads",
    ),
    f.LAYER,
    *_PAIR,
    Column(
        "distance",
        "float64",
        "distance of the label words' keys along the principal components of the targets' queries, "
        "divided by the largest in the layer, so 1 for two labels; null if the queries do not vary",
        "1",
    ),
    keys="model task seed heads layer label other",
)

CONFUSION_SUMMARY = table(
    "confusion_summary",
    "one per (task, pair of labels) for auc, (task, heads, layer, pair) for distance, (task or "
    "average, heads, layer) for correlation",
    *f.OF_TASK,
    Column(
        "measure",
        "string",
        "auc: how well the ratio of two labels' probabilities separates their examples; distance: "
        "between the keys of their label words; correlation: Spearman's rank correlation of the "
        "two over pairs of labels",
    ),
    Column("heads", "string", "concatenated or separate, as in confusion; null for auc"),
    Column("layer", "int32", "transformer layer; null for auc"),
    Column("label", "int32", "one label of a pair; null for correlation"),
    Column("other", "int32", "the other label of the pair; null for correlation"),
    Column(
        "mean",
        "float64",
        "mean over seeds; null if undefined, such as a correlation over fewer than three pairs",
        "1",
    ),
    *f.INTERVAL,
    f.SKIPPED,
    keys="model task measure heads layer label other",
)


ANALYSIS = Analysis(
    subject="confused labels and key distances in {}",
    category=ANCHORS,
    measured=Measured(
        message="Measuring distances between the keys of label words of {task} in {model}"
    ),
    summary=Summary(
        {"predictions": "attention/predictions", "confusion": "confusion", "prompts": "prompts"}
    ),
    figure=Presented("Confused labels and key distances (Fig. 6 of [A])", settings=("labels",)),
    table=Presented("Confused labels and key distances"),
)
