"""Attention from the target to label words as a predictor of answers: AUCROC_l, R_l ([A] §2.3)."""

from anchorflow.config.analysis import (
    INFORMATION,
    Analysis,
    Measured,
    Presented,
    Summary,
    Tabulated,
)
from anchorflow.config.table import SHARE, Column, Measure, table
from anchorflow.schemas import fields as f
from anchorflow.schemas.summaries import summary_of

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

_AUC = "AUCROC_l of {}, against the model's own predictions, which scoring defines"
_GRADED = (
    "share of pairs of texts of which that with more attention to {} gives the label a higher "
    "probability, mean over labels"
)
_OTHER = "the mean attention to the other tokens of each demonstration"
ATTENTION_SUMMARY = summary_of(
    "attention",
    (f.LAYER,),
    (
        Measure("auc", _AUC.format("label-word attention at the target"), SHARE),
        Measure("cumulative", "R_l, the share of all layers' excess AUC reached by layer l"),
        Measure("auc_other", _AUC.format(_OTHER), SHARE),
        Measure("graded", _GRADED.format("a label's words"), SHARE),
        Measure("graded_other", _GRADED.format("other tokens"), SHARE),
    ),
    (Column("unpredicted", "int32", "classes never predicted, summed over seeds", "classes"),),
    mean="mean over seeds; null if undefined",
)


ANALYSIS = Analysis(
    subject="AUCROC and R of {}",
    category=INFORMATION,
    measured=Measured(
        {"attention": "attention", "predictions": "predictions"},
        sharded=True,
        twins=True,
        message="Measuring attention to the demonstrations of {task} in {model}",
        reads={"prompts": "prompts", "tokenizer": "tokenizers", "model": "models"},
        scored=True,
    ),
    summary=Summary(
        {
            "attention": "attention/attention",
            "predictions": "attention/predictions",
            "prompts": "prompts",
        }
    ),
    figure=Presented(
        "AUCROC and R over the layers (Fig. 5 of [A])",
        untrained={
            "untrained": "attention/attention",
            "untrained_predictions": "attention/predictions",
        },
    ),
    table=Tabulated(
        "Label-word attention as a predictor of the model's own predictions",
        note="Layers counted from 0, five depths per model; chance is 0.5. unpredicted: number of "
        "classes that the model never predicts, which auc leaves out, summed over seeds.",
        index=("task", "layer", "unpredicted"),
        at_depths=True,
    ),
)
