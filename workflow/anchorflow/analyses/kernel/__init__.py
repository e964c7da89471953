"""Attention to many demonstrations as kernel weights over their labels ([K] §5.1-5.3)."""

from anchorflow.config.analysis import KERNEL, Analysis, Measured, Presented, Summary

ANALYSIS = Analysis(
    subject="kernel regression on the heads of {}",
    category=KERNEL,
    measured=Measured(
        {
            "samples": "samples",
            "prompts": "prompts",
            "attention": "kernel_attention",
            "predictions": "predictions",
            "kernel": "kernel",
            "segments": "segments",
            "places": "places",
            "similarity": "similarity",
            "states": "states",
            "counts": "counts",
        },
        sharded=True,
        twins=True,
        message="Measuring attention to many demonstrations of {task} in {model}",
        reads={
            "texts": "texts",
            "samples": "samples",
            "prompts": "prompts",
            "tokenizer": "tokenizers",
            "model": "models",
        },
        builds_prompts=True,
        without=("chosen_on",),  # the texts on which heads are chosen affect summaries only
    ),
    summary=Summary(
        {
            "kernel": "kernel/kernel",
            "predictions": "kernel/predictions",
            "prompts": "kernel/prompts",
        },
        heavy=True,
    ),
    figure=Presented("Kernel regression by head"),
    table=Presented("Kernel regression: best heads"),
)
