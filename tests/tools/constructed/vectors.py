"""Answers with vectors, of two labels, as the tables of the analysis."""

from collections.abc import Mapping, Sequence

import polars as pl

from anchorflow.analyses.vectors import ALL, NO_LAYER, SIMILARITY, VECTORS
from constructed.rows import frame

Setting = tuple[str, str, int, int]  # vector, source, number, and layer
RECIPIENT, FULL = ("none", "none", 0, NO_LAYER), ("none", "none", ALL, NO_LAYER)
ONE = ("none", "none", 1, NO_LAYER)


def put(vector: str, source: str = "own", layer: int = 2) -> Setting:
    """A vector behind a layer; local ones are in prompts with all demonstrations."""
    return vector, source, ALL if vector == "local" else 0, layer


RANDOM_TEXTS = put("local", "none", NO_LAYER)


def answers(
    probabilities: Mapping[Setting, Sequence[float]],
    chosen: int = 2,
    seeds: int = 2,
    task: str = "news",
    model: str = "tiny",
) -> pl.DataFrame:
    """The true label 1 of text i has probability i of each list; one layer is ``chosen``."""
    rows = [
        dict(zip(("vector", "source", "number", "layer"), setting, strict=True))
        | {"seed": seed, "example": example, "label": 1, "prediction": int(value >= 0.5)}
        | {"probabilities": [1 - value, value]}
        | {"chosen": setting[3] == chosen}
        for seed in range(seeds)
        for setting, values in probabilities.items()
        for example, value in enumerate(values)
    ]
    return frame(rows, VECTORS, task=task, model=model)


def similarity(cosines: Mapping[int, Sequence[float]], seeds: int = 2) -> pl.DataFrame:
    """Cosines by layer and demonstration; controls are half of them, and ``to_task`` their double.

    Demonstrations of different seeds are different ones.
    """
    rows = [
        {"seed": seed, "example": seed * len(values) + k, "layer": layer, "demonstration": k}
        | {"similarity": value, "similarity_control": value / 2}
        | {"to_task": 2 * value, "to_task_control": value}
        for seed in range(seeds)
        for layer, values in cosines.items()
        for k, value in enumerate(values)
    ]
    return frame(rows, SIMILARITY)
