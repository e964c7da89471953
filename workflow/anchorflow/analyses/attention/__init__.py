"""Attention from the target to label words as a predictor of answers: AUCROC_l, R_l ([A] §2.3)."""

from anchorflow.config.analysis import (
    INFORMATION,
    Analysis,
    Measured,
    Presented,
    Summary,
    Tabulated,
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
