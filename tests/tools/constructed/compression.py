"""Predictions after compression, loyal where a test says so."""

from typing import Any

import polars as pl

from anchorflow.analyses.compression import COMPRESSION
from anchorflow.analyses.compression.summarize import summarize_compression
from anchorflow.schemas.prompts import PROMPTS
from constructed.rows import frame

EXAMPLES = 8


def row(method: str, example: int, draw: int, loyal: bool, **more: Any) -> dict[str, Any]:
    """One prediction; of the likeliest tokens, three of five stay if it is not loyal."""
    label = example % 2
    prediction = 0 if loyal else 1
    return {
        "example": example,
        "method": method,
        "share": None,
        "draw": draw,
        "kept": 20 if method == "full" else 5,
        "shared": 20,
        "label": label,
        "prediction": prediction,
        "probabilities": [1.0 - prediction, float(prediction)],
        "label_mass": 0.75 if loyal else 0.25,
        "in_labels": loyal or example == 1,
        "top_tokens": [1, 2, 3, 4, 5] if loyal else [1, 2, 3, 6, 7],
        **more,
    }


def compression_of(loyal_draws: dict[int, set[int]], **more: Any) -> pl.DataFrame:
    """Everything predicts 0; anchors do so too; each random draw on the examples named."""
    rows = [row("full", e, 0, True, **more) for e in range(EXAMPLES)]
    rows += [row("hidden_anchor", e, 0, True, **more) for e in range(EXAMPLES)]
    rows += [
        row("hidden_random", e, draw, e in loyal, **more)
        for draw, loyal in loyal_draws.items()
        for e in range(EXAMPLES)
    ]
    return frame(rows, COMPRESSION, model="m")


def prompts_of(tasks: list[str]) -> pl.DataFrame:
    """Prompts of all examples of these tasks, none too long."""
    rows = [
        {"task": task, "seed": 0, "demonstrations": "fixed", "example": e}
        for task in tasks
        for e in range(EXAMPLES)
    ]
    return frame(rows, PROMPTS)


def summary_of_the_paper_s_tasks() -> pl.DataFrame:
    """A summary beside which the paper's figures stand: its model on its tasks."""
    tasks = ["sst2", "trec", "agnews", "emoc"]
    whole = pl.concat([compression_of({0: {1}}, task=task, model="gpt-j-6b") for task in tasks])
    return summarize_compression(whole, prompts_of(tasks), 0.9)
