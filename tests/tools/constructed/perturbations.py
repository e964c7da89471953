"""Prompts with perturbed texts, and predictions for untouched ones."""

import polars as pl

from constructed.retrieval import random_predictions
from tiny_models import PREFIX, shared_prompts


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
