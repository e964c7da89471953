"""Regressions on embeddings and attention, by number of demonstrations ([K] Table 2)."""

from anchorflow.config.analysis import KERNEL, Analysis, Presented, Summary

ANALYSIS = Analysis(
    subject="in-context learning and regressors for {}",
    category=KERNEL,
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
