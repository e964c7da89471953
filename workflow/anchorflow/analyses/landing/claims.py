"""Where attention to the demonstrations lands ([K] §5.1)."""

import numpy as np
import polars as pl

from anchorflow.claims.claim import Claim, Control, Run, Sampled
from anchorflow.claims.effects import mean_of_examples
from anchorflow.schemas.fields import SINK

READS = ("segments",)

_CELL = ("example", "layer")


def beyond_length(run: Run, segment: str = "label") -> Sampled:
    """A segment's share of attention to the demonstrations minus its share of tokens.

    The mean over layers, except those without attention to the demonstrations, which may lie
    outside a sliding window.
    """
    seeds = {}
    for seed, rows in run.by_seed("segments").items():
        means = (
            rows.filter(pl.col("segment") != SINK)
            .group_by(*_CELL, "segment")
            .agg(pl.col("attention").cast(pl.Float64).mean(), pl.col("tokens").first())
        )
        shares = means.with_columns(
            beyond=pl.col("attention") / pl.col("attention").sum().over(_CELL)
            - pl.col("tokens") / pl.col("tokens").sum().over(_CELL)
        ).filter(pl.col("segment") == segment)
        defined = pl.col("beyond").fill_nan(None)
        of_examples = shares.group_by("example").agg(defined.mean()).sort("example")
        values = of_examples["beyond"].fill_null(np.nan).to_numpy()
        seeds[seed] = mean_of_examples(of_examples, values)
    return Sampled(seeds)


CLAIMS = (
    Claim(
        "attention_lands_on_label_words",
        "Attention to demonstrations lands on label words beyond their share of tokens",
        "[K] §5.1, Fig. 2",
        "label words' share of the target's attention to demonstrations minus their share of "
        "tokens, mean over layers",
        "share of attention",
        beyond_length,
        Control(
            "the template before the label word in its place",
            lambda run: beyond_length(run, "before_label"),
        ),
        figure="landing",
        measured_in="kernel",
    ),
)
