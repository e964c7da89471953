"""Tiny runs of ablation, for the test of cost."""

import polars as pl

from anchorflow.analyses.ablation import measure as ablation
from anchorflow.analyses.ablation.measure import measure_ablation, settings_of
from anchorflow.analyses.heads import HEADS
from constructed.rows import frame
from tiny_cells import TABLE

SPEC = {
    "scores": ["label_copy"],
    "shares": [0.1],
    "draws": 1,
    "where": ["everywhere"],
    "by": ["zero"],
}
SCORED: pl.DataFrame = frame(
    [
        {
            "score": "label_copy",
            "example": example,
            "layer": layer,
            "head": head,
            "value": 1.0 - layer,
            "control": 0.0,
        }
        for example in range(4)
        for layer in range(3)
        for head in range(4)
    ],
    HEADS,
)

COUNTED = {
    "ablation": (
        ablation,
        SPEC,
        lambda model: measure_ablation(model, TABLE, SCORED, settings_of(SPEC), 1000),
    )
}
