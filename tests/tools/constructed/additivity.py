"""Answers and likeness of composed outputs, of two seeds."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from anchorflow.analyses.additivity import ADDITIVITY
from constructed.rows import frame


def of_additivity(log_odds: Mapping[str, Sequence[float]], seeds: int = 2) -> pl.DataFrame:
    """The table with these log odds of each text by kind, and likeness in three layers."""
    rows: list[dict[str, Any]] = [
        {"seed": seed, "example": example, "kind": kind, "layer": -1}
        | {"log_odds": odds, "accuracy": float(odds > 0)}
        for seed in range(seeds)
        for kind, texts in log_odds.items()
        for example, odds in enumerate(texts)
    ]
    rows += [
        {"seed": seed, "example": example, "kind": kind, "layer": layer}
        | {"explained": 0.5 - layer * of, "cosine": 0.9 - layer * of}
        for seed in range(seeds)
        for kind, of in (("composed", 0.1), ("other_query", 0.3), ("deranged", 0.2))
        for example in range(len(log_odds["one"]))
        for layer in range(3)
    ]
    return frame(rows, ADDITIVITY)
