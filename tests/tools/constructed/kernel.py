"""Kernel weights, predictions and prompts as tables, for summaries worked out by hand."""

import polars as pl

from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.kernel import KERNEL
from anchorflow.schemas.predictions import PREDICTIONS
from anchorflow.schemas.prompts import PROMPTS


def predictions(
    told: list[int], true: list[int], task: str = "news", seed: int = 0
) -> pl.DataFrame:
    """What the model predicts of each example, beside the true label."""
    rows = [
        {
            "model": "tiny",
            "task": task,
            "seed": seed,
            "example": example,
            "label": label,
            "prediction": prediction,
            "probabilities": [0.5, 0.5],
            "top_tokens": [1],
            "top_texts": ["a"],
            "top_probabilities": [0.1],
            "token_groups": [0, 1],
        }
        for example, (prediction, label) in enumerate(zip(told, true, strict=True))
    ]
    return pl.DataFrame(rows, schema=frame_schema(PREDICTIONS))


def kernel(
    told: dict[tuple[int, int], list[int | None]],
    task: str = "news",
    seed: int = 0,
    correlation: float | None = 0.5,
) -> pl.DataFrame:
    """Predictions of each (layer, head), the same for all kinds of weights."""
    rows = [
        {
            "model": "tiny",
            "task": task,
            "seed": seed,
            "example": example,
            "layer": layer,
            "head": head,
            "weights": weights,
            "prediction": prediction,
            "correlation": correlation if example else None,
        }
        for (layer, head), of_head in told.items()
        for example, prediction in enumerate(of_head)
        for weights in ("max", "label", "mean")
    ]
    return pl.DataFrame(rows, schema=frame_schema(KERNEL)).sort("example", "layer", "head")


def prompts(tasks: tuple[str, ...] = ("news", "reviews"), skipped: int = 0) -> pl.DataFrame:
    """As many prompts of each task as can be counted, the last ``skipped`` tasks' too long."""
    run = len(tasks) - skipped
    rows = [
        {"task": task, "demonstrations": "kernel", "skipped": None if place < run else "too long"}
        for place, task in enumerate(tasks)
    ]
    return pl.DataFrame(rows, schema=frame_schema(PROMPTS))
