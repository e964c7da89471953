"""What probes decode from keys and values around label words ([K] §5.4)."""

from anchorflow.config.analysis import KERNEL, Analysis, Measured, Presented, Summary

ANALYSIS = Analysis(
    subject="probes of keys and values in {}",
    category=KERNEL,
    measured=Measured(follows="kernel", twins=True),
    summary=Summary({"probes": "probes", "prompts": "kernel/prompts", "samples": "kernel/samples"}),
    figure=Presented("Probes of keys and values"),
    table=Presented("Probes of keys and values"),
)
