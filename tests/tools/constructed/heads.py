"""Scores of heads and predictions without them, for numbers worked out by hand."""

from collections.abc import Mapping, Sequence

import polars as pl

from anchorflow.analyses.ablation import ABLATION
from anchorflow.analyses.heads import HEADS
from anchorflow.schemas.beta import BETA
from constructed.rows import frame

Head = tuple[int, int]  # layer and head


def heads(
    scores: Mapping[str, Mapping[Head, Sequence[float]]],
    controls: Mapping[str, float] | None = None,
    seeds: int = 3,
    model: str = "tiny",
    task: str = "news",
) -> pl.DataFrame:
    """The table ``heads``: values of the examples of every seed, by score and head."""
    rows = [
        {"model": model, "task": task, "seed": seed, "score": score, "example": example}
        | {"layer": layer, "head": head, "value": value, "control": (controls or {}).get(score)}
        for seed in range(seeds)
        for score, of_heads in scores.items()
        for (layer, head), values in of_heads.items()
        for example, value in enumerate(values)
    ]
    return frame(rows, HEADS)


Taken = tuple[str, bool, int, float]  # score, control, draw, share


def ablation(
    right: Mapping[Taken, Sequence[int]],
    intact: Sequence[int],
    alone: Sequence[int],
    seeds: int = 3,
    model: str = "tiny",
    task: str = "news",
) -> pl.DataFrame:
    """The table ``ablation``: 1 where an example is labeled right, and so among label words."""
    settings = {
        **{(*of, "target", "mean"): values for of, values in right.items()},
        ("none", False, 0, 0.0, "none", "none"): intact,
        ("alone", False, 0, 0.0, "none", "none"): alone,
    }
    rows = [
        {"model": model, "task": task, "seed": seed, "example": example, "score": score}
        | {"control": control, "draw": draw, "where": where, "by": by, "share": share}
        | {"heads": 1, "label": 0, "prediction": 1 - value, "probabilities": [0.5, 0.5]}
        | {"label_mass": 0.5, "in_labels": bool(value), "divergence": 1.0 - value}
        for seed in range(seeds)
        for (score, control, draw, share, where, by), values in settings.items()
        for example, value in enumerate(values)
    ]
    return frame(rows, ABLATION)


def beta(of_heads: Mapping[Head, float], seeds: int = 3) -> pl.DataFrame:
    """The table ``beta``, with two demonstrations around each head's mean."""
    rows = [
        {"model": "tiny", "task": "news", "seed": seed, "layer": layer, "head": head}
        | {"demonstration": demonstration, "beta": mean + 0.1 * (2 * demonstration - 1)}
        for seed in range(seeds)
        for (layer, head), mean in of_heads.items()
        for demonstration in range(2)
    ]
    return frame(rows, BETA)
