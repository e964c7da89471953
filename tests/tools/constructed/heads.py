"""A summary of two heads, one of which predicts what the model does."""

import polars as pl

from anchorflow.summarize.heads import summarize_heads
from constructed.kernel import kernel, predictions, prompts


def summary(skipped: int = 0) -> pl.DataFrame:
    """Two tasks with two seeds each, and one more whose prompts are too long, if any is."""
    tasks = ("news", "reviews") if not skipped else ("news", "reviews", "long")
    parts = [
        (
            kernel({(0, 0): [0, 0], (1, 0): [0, 1]}, task, seed),
            predictions([0, 1], [1, 1], task, seed),
        )
        for task in ("news", "reviews")
        for seed in (0, 1)
    ]
    return summarize_heads(
        pl.concat([k for k, _ in parts]),
        pl.concat([p for _, p in parts]),
        prompts(tasks, skipped),
        0.9,
    )
