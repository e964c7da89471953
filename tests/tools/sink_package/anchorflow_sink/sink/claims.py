"""Whether the first tokens draw more attention than others."""

import polars as pl

from anchorflow.claims.claim import Claim, Control, Run, Sampled
from anchorflow.claims.effects import mean_of_examples

READS = ("sink",)


def attention_over_even(run: Run) -> Sampled:
    """Attention to the first tokens minus that of even attention, mean over layers."""
    over = pl.col("attention").mean() - pl.col("even").mean()
    seeds = {}
    for seed, rows in run.by_seed("sink").items():
        texts = rows.group_by("example").agg(over=over).sort("example")
        seeds[seed] = mean_of_examples(texts, texts["over"].to_numpy())
    return Sampled(seeds)


CLAIMS = (
    Claim(
        "first_token_draws_attention",
        "The first tokens draw more of the target's attention than if it were spread evenly",
        "[H] §1",
        "attention to the first tokens minus that of even attention, mean over layers",
        "share of attention",
        attention_over_even,
        Control.subtracted("even attention"),
        figure="sink",
    ),
)
