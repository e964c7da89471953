"""Attention to label words and predictions as tables, with layers that tell all, nothing or lie."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from anchorflow.analyses.attention import ATTENTION
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.predictions import PREDICTIONS
from anchorflow.schemas.prompts import PROMPTS
from constructed.rows import frame

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
    """A predictions table of these predictions, which are twice as likely as other labels."""
    groups = list(range(classes))
    rows = [
        ("tiny", task, seed, example, 0, label, shares, 1.0, True, [0], ["x"], [1.0], groups)
        for example, label in enumerate(predictions)
        for shares in [[(1 + (other == label)) / (classes + 1) for other in groups]]
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


TOKENS = 5  # of each demonstration


def attention_beside(
    predictions: Sequence[int], labels: Sequence[int], kinds: Sequence[str], others: Sequence[str]
) -> dict[str, np.ndarray]:
    """Attention to label words, and the mean over demonstrations' tokens, of which they are one.

    ``others`` are kinds of attention to the other tokens.
    """
    word, other = (attention_towards(predictions, labels, each) for each in (kinds, others))
    return {"attention_label": word, "attention_mean": (word + (TOKENS - 1) * other) / TOKENS}


def prompts_table(demonstrations: int, task: str = "reviews", seed: int = 0) -> pl.DataFrame:
    """A prompt with demonstrations of five tokens, the fourth a label word, after one too long."""
    starts = [1 + TOKENS * place for place in range(demonstrations)]
    places = {
        "demonstration_starts": starts,
        "demonstration_ends": [start + TOKENS for start in starts],
        "label_positions": [start + 3 for start in starts],
        "label_ends": [start + 4 for start in starts],
    }
    skipped = {"skipped": "too long", **{name: [] for name in places}}
    same = {"task": task, "seed": seed, "demonstrations": "fixed"}
    return frame([{**same, **skipped}, {**same, **places, "skipped": None}], PROMPTS)


def deep_tables(
    kinds: Sequence[str],
    others: Sequence[str],
    seeds: Sequence[int],
    predictions: Sequence[int] = tuple(range(3)) * 9,
) -> dict[str, pl.DataFrame]:
    """Attention towards a demonstration of each of three labels, predictions, and prompts."""
    labels = range(3)
    of_both = attention_beside(predictions, labels, kinds, others)
    values = {name: pl.Series(array.ravel()[::-1]) for name, array in of_both.items()}
    attention = [
        attention_table(of_both["attention_label"], labels, "news", seed).with_columns(
            values["attention_mean"].cast(pl.Float32).alias("attention_mean")
        )
        for seed in seeds
    ]
    told = [predictions_table(predictions, 3, "news", seed) for seed in seeds]
    return {
        "attention": pl.concat(attention),
        "predictions": pl.concat(told),
        "prompts": pl.concat([prompts_table(3, "news", seed) for seed in seeds]),
    }
