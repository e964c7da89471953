"""What is estimated of edges in three layers, for agreements worked out by hand."""

import polars as pl

from anchorflow.schemas.faithfulness import FAITHFULNESS
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.knockout import KNOCKOUT
from constructed.knockouts import knockout


def faithfulness(
    told: dict[str, list[float]], examples: int = 2, seeds: int = 2, control: bool = False
) -> pl.DataFrame:
    """The table in which estimates of each layer are those of ``told``, in all prompts."""
    rows = [
        {
            "model": "tiny",
            "task": "news",
            "seed": seed,
            "example": example,
            "edges": "label_to_target",
            "control": control,
            "draw": 0,
            "layer": layer,
            **{name: values[layer] for name, values in told.items()},
        }
        for seed in range(seeds)
        for example in range(examples)
        for layer in range(3)
    ]
    return pl.DataFrame(rows, schema=frame_schema(FAITHFULNESS))


def cuts(changes: list[float], examples: int = 2, seeds: int = 2) -> pl.DataFrame:
    """The table ``knockout`` in which cutting in each layer changes the loss so."""
    parts = []
    for layer, change in enumerate(changes):
        table = knockout(
            {("label_to_target", False, 0): [0.5] * examples},
            [0.5] * examples,
            ("single", layer, 1),
            seeds,
        )
        cut = pl.col("edges") != "none"
        table = table.with_columns(loss=pl.col("loss") + pl.when(cut).then(change).otherwise(0))
        parts.append(table if layer == 0 else table.filter(cut))
    return pl.concat(parts).cast(frame_schema(KNOCKOUT))
