"""Prompts with two choices of demonstrations, and what is known of them beforehand."""

import polars as pl

from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.predictions import PREDICTIONS
from tiny_models import shared_prompts


def cell_prompts(queries: list[int]) -> pl.DataFrame:
    """Prompts of two choices, whose demonstrations differ, in PROMPTS' columns."""
    first = shared_prompts(queries).with_columns(demonstrations=pl.lit("nearest"))
    ids = [[(token * 5) % 97 for token in row] for row in first["token_ids"].to_list()]
    other = first.with_columns(demonstrations=pl.lit("nearest_per_label"), token_ids=pl.Series(ids))
    return pl.concat([first, other])


def random_predictions(examples: list[int]) -> pl.DataFrame:
    """Predictions with random demonstrations, always of label 1."""
    rows = [
        {
            "model": "tiny",
            "task": "news",
            "seed": 0,
            "example": example,
            "label": example % 3,
            "prediction": 1,
            "probabilities": [0.1, 0.7, 0.2],
            "top_tokens": [],
            "top_texts": [],
            "top_probabilities": [],
        }
        for example in examples
    ]
    return pl.DataFrame(rows, schema=frame_schema(PREDICTIONS))


def described(prompts: pl.DataFrame, examples: list[int]) -> pl.DataFrame:
    """Similarities of the random demonstrations and of those of the prompts, increasing by 0.1."""
    named = [("random", example) for example in examples]
    named += prompts.select("demonstrations", "example").rows()
    return pl.DataFrame(
        [(choice, example, place / 10, 0.5) for place, (choice, example) in enumerate(named)],
        schema=["choice", "example", "similarity", "same_label"],
        orient="row",
    ).cast({"example": pl.Int32})
