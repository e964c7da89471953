"""Attention to label words and predictions as tables, with layers that tell all, nothing or lie."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from anchorflow.schemas.attention import ATTENTION
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.predictions import PREDICTIONS

HEADS = 2


def attention_table(
    attention: np.ndarray, labels: Sequence[int], task: str = "reviews", seed: int = 0
) -> pl.DataFrame:
    """An attention table of [examples, L, H, N] with demonstrations of these labels."""
    rows = [
        ("tiny", task, seed, *index, labels[index[-1]], value, value, value)
        for index, value in np.ndenumerate(attention)
    ]
    return pl.DataFrame(rows[::-1], schema=frame_schema(ATTENTION), orient="row")


def predictions_table(
    predictions: Sequence[int], classes: int, task: str = "reviews", seed: int = 0
) -> pl.DataFrame:
    """A predictions table of these predictions; nothing else in it counts."""
    rows = [
        ("tiny", task, seed, example, 0, label, [1 / classes] * classes, [0], ["x"], [1.0])
        for example, label in enumerate(predictions)
    ]
    return pl.DataFrame(rows[::-1], schema=frame_schema(PREDICTIONS), orient="row")


def attention_towards(
    predictions: Sequence[int], labels: Sequence[int], kinds: Sequence[str]
) -> np.ndarray:
    """[examples, L, H, N]: each layer attends to the prediction's label words, all, or others."""
    same = np.array(predictions)[:, None] == np.array(labels)[None]
    of_kind = {
        "perfect": np.where(same, 0.3, 0.1),
        "reversed": np.where(same, 0.1, 0.3),
        "even": np.full(same.shape, 0.2),
    }
    layers = np.stack([of_kind[kind] for kind in kinds], 1)
    return np.repeat(layers[:, :, None], HEADS, 2)
