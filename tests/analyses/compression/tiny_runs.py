"""Tiny runs of compression, for the tests of shards, of memory, and of cost."""

import polars as pl
import torch

from anchorflow.analyses.compression import measure as compression
from anchorflow.analyses.compression.measure import ANCHOR, FULL, measure_compression
from anchorflow.kept_positions import METHODS
from tiny_cells import LENGTHS, TABLE, Limited, Tables, prompts_of_cell
from tiny_models import shared_prompts, tiny_model

KEPT = {"methods": ["hidden_anchor", "recent"], "shares": [], "draws": 1, "positions": "original"}
COUNTED_KEPT = {"methods": ["hidden_anchor", "snapkv"], "shares": [0.5], "draws": 1}


def sharded(examples: list[int] | None, batch_tokens: int) -> Tables:
    prompts = pl.concat(
        [
            prompts_of_cell(),
            shared_prompts(LENGTHS[:4])[1:].with_columns(demonstrations=pl.lit("training")),
        ]
    )
    beta = torch.linspace(-0.5, 0.5, 3 * 4 * 3).reshape(3, 4, 3)
    methods = [name for name in METHODS if name != "full"]
    spec = {"methods": methods, "shares": [0.2, 0.5], "draws": 3, "positions": "original"}
    betas = {FULL: beta, ANCHOR: -beta}
    rows = measure_compression(tiny_model("llama"), prompts, betas, spec, batch_tokens, examples)
    return {"compression": rows}


SHARDED = {"compression": sharded}
LIMITED: dict[str, Limited] = {
    "compression": lambda model, table: measure_compression(
        model, table, {FULL: torch.zeros(3, 4, 3)}, KEPT, 1000
    )
}
LIMITED_HEAD = {"compression": LIMITED["compression"]}
COUNTED = {
    "compression": (
        compression,
        COUNTED_KEPT,
        lambda m: compression.measure_compression(
            m, TABLE, {}, {**COUNTED_KEPT, "positions": "original"}, 1000
        ),
    )
}
