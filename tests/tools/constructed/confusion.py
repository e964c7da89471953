"""Predictions in which labels are told apart as far as their keys, and their distances."""

from itertools import combinations

import numpy as np
import polars as pl

from anchorflow.analyses.confusion import CONFUSION
from anchorflow.analyses.confusion.summarize import summarize_confusion
from anchorflow.schemas.predictions import PREDICTIONS
from anchorflow.schemas.prompts import PROMPTS
from constructed.rows import frame


def cell(task: str, seed: int, classes: int, far: list[float]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Predictions in which pairs are told apart as far as their keys, with two layers of them.

    Distances tell this in layer 0; in layer 1, they tell the opposite. Those within heads are the
    other way round.
    """
    pairs = list(combinations(range(classes), 2))
    rows = []
    random = np.random.default_rng(seed)
    for example in range(classes * 40):
        label = example % classes
        scores = np.zeros(classes)
        for (a, b), distance in zip(pairs, far, strict=True):
            if label in (a, b):
                sign = 1 if label == a else -1
                scores[a] += sign * distance
                scores[b] -= sign * distance
        probabilities = np.exp(scores + random.normal(size=classes))
        rows.append(
            {
                "example": example,
                "label": label,
                "prediction": int(probabilities.argmax()),
                "probabilities": (probabilities / probabilities.sum()).tolist(),
            }
        )
    distances = [
        {"heads": heads, "layer": layer, "label": a, "other": b}
        | {"distance": distance if (layer == 0) == (heads == "concatenated") else 1 - distance}
        for heads in ("concatenated", "separate")
        for layer in (0, 1)
        for (a, b), distance in zip(pairs, far, strict=True)
    ]
    return (
        frame(rows, PREDICTIONS, model="m", task=task, seed=seed),
        frame(distances, CONFUSION, model="m", task=task, seed=seed),
    )


def prompts_of(predictions: pl.DataFrame) -> pl.DataFrame:
    """Prompts with fixed demonstrations of the predictions' examples, none too long."""
    rows = predictions.select("model", "task", "seed", "example").to_dicts()
    fixed = [{**row, "demonstrations": "fixed"} for row in rows]
    return frame(fixed, PROMPTS)


def of_two_labels() -> pl.DataFrame:
    """The summary of a run without three labels."""
    predictions, diagnosis = cell("two", 0, 2, [1.0])
    return summarize_confusion(predictions, diagnosis, prompts_of(predictions), 0.9)
