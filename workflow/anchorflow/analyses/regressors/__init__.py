"""Regressions on embeddings and attention, by number of demonstrations ([K] Table 2)."""

from anchorflow.config.analysis import KERNEL_REGRESSION, Analysis, Presented, Summary
from anchorflow.config.table import Column, table
from anchorflow.schemas import fields as f

_WEIGHTS_OR_NULL = Column(
    "weights", "string", "as in the table kernel; null for methods other than heads"
)

REGRESSORS_SUMMARY = table(
    "regressors_summary",
    "one per (task, method, number of demonstrations, measure)",
    *f.OF_TASK,
    Column(
        "method",
        "string",
        "in_context: the model itself; head_chosen_here, head_held_out: kernel regression on the "
        "attention of the head that agrees most with the model, chosen on the same examples "
        "(optimistic) or on others (see kernel.chosen_on), for each number of demonstrations; "
        "encoder: kernel regression with the "
        "sentence encoder; encoder_logistic: logistic regression on its embeddings; encoder_NAME: "
        "kernel regression with the encoder of that name in encoder.further",
    ),
    _WEIGHTS_OR_NULL,
    Column(
        "demonstrations_per_label",
        "int32",
        "demonstrations of each label; null: as many as the budget allows",
        "demonstrations",
    ),
    Column(
        "demonstrations",
        "float64",
        "all demonstrations in the prompt, mean over seeds",
        "demonstrations",
    ),
    Column(
        "measure",
        "string",
        "accuracy, or agreement with the model's own predictions for the same demonstrations; for "
        "in_context with fewer demonstrations, with its predictions for all of them",
    ),
    Column("mean", "float64", "mean over seeds", "1"),
    *f.INTERVAL,
    Column(
        "published",
        "float64",
        "[K] Table 2, if model and task are the paper's, with all demonstrations",
        "1",
    ),
    f.SKIPPED,
    keys="model task method weights demonstrations_per_label measure",
)


ANALYSIS = Analysis(
    subject="in-context learning and regressors for {}",
    category=KERNEL_REGRESSION,
    summary=Summary(
        {
            "kernel": "kernel/kernel",
            "predictions": "kernel/predictions",
            "counts": "kernel/counts",
            "samples": "kernel/samples",
            "prompts": "kernel/prompts",
            "embeddings": "embeddings",
            "further_embeddings": "further_embeddings",
        },
        ("statistics", "temperatures", "chosen_on"),
        heavy=True,
    ),
    figure=Presented("Regressors by number of demonstrations", settings=("labels",)),
    table=Presented("In-context learning and regressors (Table 2 of [K])"),
)
