"""Agreement of the model with kernel regression by number of demonstrations ([K] §4.1)."""

import polars as pl

from anchorflow.summarize.claims._claim import Claim, Control, NotTested, Run, Sampled
from anchorflow.summarize.claims._effects import mean_of_examples
from anchorflow.summarize.claims._encoder import encoder_agreement
from anchorflow.summarize.claims._heads import ONE_NUMBER, fewer_demonstrations

READS = ("counts", "kernel_predictions", "kernel_samples", "embeddings")


def agreement_gained(run: Run) -> Sampled:
    """Agreement with the encoder's kernel, all demonstrations minus the fewest, paired.

    Raises
    ------
    NotTested
        If there is only one number of demonstrations.
    """
    counts = fewer_demonstrations(run)
    seeds = {}
    for seed, every in run.by_seed("kernel_predictions").items():
        of_seed = counts.filter(pl.col("seed") == seed)
        if of_seed.is_empty():
            continue
        fewest = int(of_seed["demonstrations_per_label"].to_numpy().min())
        few = of_seed.filter(
            pl.col("demonstrations_per_label") == fewest,
            pl.col("example").is_in(every["example"].implode()),
        )
        both = every.filter(pl.col("example").is_in(few["example"].implode()))
        if both.is_empty():
            continue
        gained = encoder_agreement(run, both, None) - encoder_agreement(run, few, fewest)
        seeds[seed] = mean_of_examples(both, gained)
    if not seeds:
        raise NotTested(ONE_NUMBER)
    return Sampled(seeds)


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "agreement_grows",
        "With more demonstrations, the model agrees more with kernel regression",
        "[K] §4.1",
        "agreement with kernel regression with the sentence encoder, with as many demonstrations "
        "as the budget allows minus with the fewest",
        "share of predictions agreeing",
        agreement_gained,
        Control("the fewest demonstrations, which the effect is the difference from"),
        place=1,
    ),
)
