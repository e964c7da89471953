"""Tables of attention: what is measured, and its summary."""

from anchorflow.config.table import Column, table
from anchorflow.schemas import fields as f

ATTENTION = table(
    "attention",
    "one per (example, layer, head, demonstration), demonstrations fixed",
    *f.CELL,
    f.EXAMPLE,
    f.LAYER,
    f.HEAD,
    f.DEMONSTRATION,
    f.DEMONSTRATION_LABEL,
    Column(
        "attention_label",
        "float32",
        "A(q, p_k): attention from the target, which predicts first tokens with either scoring, to "
        "the label word, summed over its tokens",
        "probability",
    ),
    Column(
        "attention_max",
        "float32",
        "largest attention from the target to a token of the demonstration, other than the "
        "prompt's first",
        "probability",
    ),
    Column(
        "attention_mean",
        "float32",
        "mean attention from the target to the demonstration's tokens, other than the prompt's "
        "first",
        "probability",
    ),
    keys="model task seed example layer head demonstration",
)

ATTENTION_SUMMARY = table(
    "attention_summary",
    "one per (task, layer, measure)",
    *f.OF_TASK,
    f.LAYER,
    Column(
        "measure",
        "string",
        "auc: AUCROC_l of label-word attention at the target, which predicts first tokens, against "
        "the model's own predictions, which scoring defines; "
        "cumulative: R_l, the share of all layers' excess AUC reached by layer l; "
        "auc_other: AUCROC_l of the mean attention to the other tokens of each demonstration; "
        "graded: share of pairs of texts of which that with more attention to a label's words "
        "gives the label a higher probability, mean over labels; graded_other: the same for other "
        "tokens",
    ),
    Column("mean", "float64", "mean over seeds; null if undefined", "1"),
    *f.INTERVAL,
    Column("unpredicted", "int32", "classes never predicted, summed over seeds", "classes"),
    keys="model task layer measure",
)
