"""Predictions without demonstrations from some layer on, for numbers worked out by hand."""

import polars as pl

from anchorflow.schemas.cutoff import CUTOFF
from anchorflow.schemas.frames import frame_schema


def cutoff(
    predicted: dict[str, list[list[int]]], plain: list[int], seeds: int = 2, task: str = "news"
) -> pl.DataFrame:
    """The table in which text i is predicted so from each layer on; the true label is 1."""
    rows = []
    for sees, of_layers in predicted.items():
        for layer, predictions in enumerate([*of_layers, plain]):
            rows += [
                {
                    "model": "tiny",
                    "task": task,
                    "seed": seed,
                    "example": example,
                    "sees": sees,
                    "draw": 0,
                    "layer": layer,
                    "label": 1,
                    "prediction": prediction,
                    "probabilities": [1.0 - prediction, float(prediction)],
                    "top_tokens": [1, 2 + prediction],
                }
                for seed in range(seeds)
                for example, prediction in enumerate(predictions)
            ]
    return pl.DataFrame(rows, schema=frame_schema(CUTOFF))
