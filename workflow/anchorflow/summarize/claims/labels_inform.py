"""Accuracy with the demonstrations' labels compared with these shuffled ([K] §4.1, eq. 6)."""

import polars as pl

from anchorflow.summarize.claims._claim import (
    DISCRIMINATING,
    Claim,
    Control,
    NotTested,
    Run,
    Sampled,
)
from anchorflow.summarize.claims._effects import mean_of_examples

READS = ("predictions",)


def labels_over_shuffled(run: Run) -> Sampled:
    """Accuracy with the true labels in the demonstrations minus with these shuffled, paired.

    Raises
    ------
    NotTested
        If no prompts with shuffled labels were run.
    """
    if "predictions" not in run.shuffled or run.shuffled["predictions"].is_empty():
        raise NotTested("labels were not shuffled (controls.shuffled_labels)")
    seeds = {}
    for seed, rows in run.by_seed("predictions").items():
        shuffled = run.shuffled["predictions"].filter(pl.col("seed") == seed)
        own, other = (
            each.select("example", right=(pl.col("prediction") == pl.col("label")))
            for each in (rows, shuffled)
        )
        pairs = own.join(other, on="example", suffix="_shuffled").sort("example")
        if not pairs.is_empty():
            gained = pairs["right"].cast(pl.Float64) - pairs["right_shuffled"].cast(pl.Float64)
            seeds[seed] = mean_of_examples(pairs, gained.to_numpy())
    if not seeds:
        raise NotTested("no text was run with both kinds of labels")
    return Sampled(seeds)


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "labels_inform",
        "Answers follow the labels that the demonstrations are shown with",
        "[K] §4.1",
        "accuracy with the demonstrations' labels minus with these shuffled among them, paired",
        "accuracy",
        labels_over_shuffled,
        Control("shuffled labels, which the effect is the difference from"),
        "shuffled labels",
        DISCRIMINATING,
    ),
)
