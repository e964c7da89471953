"""Agreement of the model with kernel regression by number of demonstrations ([K] §4.1)."""

import polars as pl

from anchorflow.summarize.claims._claim import Claim, Control, NotTested, Run, Sampled
from anchorflow.summarize.claims._effects import mean_of_examples, minus
from anchorflow.summarize.claims._encoder import encoder_agreement
from anchorflow.summarize.claims._heads import (
    NO_OTHERS,
    ONE_NUMBER,
    candidates,
    candidates_with_fewest,
    fewer_demonstrations,
)

READS = ("counts", "kernel", "kernel_predictions", "kernel_samples", "embeddings")


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


def head_agreement_gained(run: Run, measure: str = "agreement") -> Sampled:
    """Held-out agreement of the best head, all demonstrations minus the fewest, paired.

    The head is chosen anew for the fewest, so that it is no worse a choice there. As ``permuted``,
    the same heads' agreement with the labels permuted among the demonstrations.

    Raises
    ------
    NotTested
        If there is only one number of demonstrations, or no text to score a head on.
    """
    few, every = candidates_with_fewest(run), candidates(run)
    return minus(
        every.held_out(getattr(every, measure), every.best()),
        few.held_out(getattr(few, measure), few.best()),
    )


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
    Claim(
        "head_agreement_grows",
        "With more demonstrations, a head's kernel regression agrees more with the model",
        "[K] §4.1",
        "held-out agreement of the best head, with as many demonstrations as the budget allows "
        "minus with the fewest, the head chosen for each",
        "share of predictions agreeing",
        head_agreement_gained,
        Control(
            "labels permuted among the demonstrations",
            lambda run: head_agreement_gained(run, "permuted"),
        ),
        undefined=NO_OTHERS,
        place=2,
    ),
)
