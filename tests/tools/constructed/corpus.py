"""Texts on a circle to choose from; prompts of two choices or perturbations, and predictions."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from anchorflow.schemas.embeddings import EMBEDDINGS
from anchorflow.schemas.predictions import PREDICTIONS
from anchorflow.schemas.samples import SAMPLES
from anchorflow.schemas.texts import TEXTS
from constructed.rows import frame
from tiny_models import PREFIX, shared_prompts

LABELS = [" No", " Yes"]

Placed = tuple[str, float, int]  # a text, the angle of its embedding in degrees, and its label

TRAIN: list[Placed] = [
    ("east", 0, 0),
    ("steep", 60, 1),
    ("flat", 10, 0),
    ("middle", 45, 0),
    ("north", 90, 1),
    ("west", 180, 1),
    ("again", 10, 1),
]

TEST: list[Placed] = [("query", 0, 0), ("north", 90, 1)]


def corpus(
    train: Sequence[Placed] = TRAIN, test: Sequence[Placed] = TEST, task: str = "mine"
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Texts and their embeddings."""
    texts, embeddings = [], []
    for split, listed in (("train", train), ("test", test)):
        for row, (text, degrees, label) in enumerate(listed):
            place = {"task": task, "split": split, "row": row}
            angle = np.deg2rad(degrees)
            texts.append({**place, "text": text, "label": label})
            embeddings.append({**place, "embedding": [np.cos(angle), np.sin(angle)]})
    return (frame(texts, TEXTS), frame(embeddings, EMBEDDINGS))


def fixed_samples(
    labels: list[int], train: Sequence[Placed] = TRAIN, test: Sequence[Placed] = TEST, seed: int = 3
) -> pl.DataFrame:
    """All test texts, with the first training texts of these labels as fixed demonstrations."""
    left = list(range(len(train)))
    rows = []
    for label in labels:
        rows.append(next(row for row in left if train[row][2] == label))
        left.remove(rows[-1])
    samples = [
        {"task": "mine", "seed": seed, "demonstrations": "fixed", "example": example}
        | {"text": text, "label": label, "demonstration_rows": rows}
        | {"demonstration_texts": [train[row][0] for row in rows], "demonstration_labels": labels}
        for example, (text, _, label) in enumerate(test)
    ]
    return frame(samples, SAMPLES)


def cell_prompts(queries: list[int]) -> pl.DataFrame:
    """Prompts of two choices, whose demonstrations differ, in PROMPTS' columns."""
    first = shared_prompts(queries).with_columns(demonstrations=pl.lit("nearest"))
    ids = [[(token * 5) % 97 for token in row] for row in first["token_ids"].to_list()]
    other = first.with_columns(demonstrations=pl.lit("nearest_per_label"), token_ids=pl.Series(ids))
    return pl.concat([first, other])


def random_predictions(examples: list[int]) -> pl.DataFrame:
    """Predictions with random demonstrations, always of label 1."""
    rows = [
        {"example": example, "label": example % 3, "prediction": 1}
        | {"probabilities": [0.1, 0.7, 0.2], "label_mass": 0.9, "in_labels": True}
        for example in examples
    ]
    return frame(rows, PREDICTIONS)


def described(prompts: pl.DataFrame, examples: list[int]) -> pl.DataFrame:
    """Similarities of the random demonstrations and of those of the prompts, increasing by 0.1."""
    named = [("random", example) for example in examples]
    named += prompts.select("demonstrations", "example").rows()
    return pl.DataFrame(
        [(choice, example, place / 10, 0.5) for place, (choice, example) in enumerate(named)],
        schema=["choice", "example", "similarity", "same_label"],
        orient="row",
    ).cast({"example": pl.Int32})


def perturbed_prompts(queries: list[int]) -> pl.DataFrame:
    """Prompts of two perturbations, with the same demonstrations, in PROMPTS' columns."""
    first = shared_prompts(queries).with_columns(demonstrations=pl.lit("typos"))
    ids = [
        row[: PREFIX + 1] + [(token * 5) % 97 for token in row[PREFIX + 1 :]]
        for row in first["token_ids"].to_list()
    ]
    other = first.with_columns(demonstrations=pl.lit("case"), token_ids=pl.Series(ids))
    return pl.concat([first, other])


untouched_predictions = random_predictions
