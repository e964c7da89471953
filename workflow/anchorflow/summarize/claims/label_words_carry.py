"""How far label words alone move the answer to another prompt's (after [A] §2).

The claim discriminates nothing: in a network without training, little has spread from the tokens in
which the two prompts differ, so its label words move the answer too.
"""

from functools import partial

from anchorflow.arrays import Array
from anchorflow.summarize.by_task import ratio_of_seed
from anchorflow.summarize.claims._claim import (
    UNTRAINED,
    Claim,
    Control,
    NotTested,
    Run,
    Sampled,
)
from anchorflow.summarize.claims._effects import minus
from anchorflow.summarize.statistics import Statistic
from anchorflow.summarize.transplants import transplant_measures

READS = ("transplant",)

_OTHERS = ("text", "template")


def moved(run: Run, *places: str) -> Sampled:
    """Share of the way to the donor's probabilities, with all keys and values at these places.

    The mean over ``places``, of those donors with permuted label words.

    Raises
    ------
    NotTested
        If the run has none of these places.
    """
    measured = {seed: transplant_measures(rows) for seed, rows in run.by_seed("transplant").items()}
    settings = [
        {"donor": "permuted", "what": "keys_values", "places": name, "side": "all"}
        for name in places
    ]
    seeds = {}
    for seed, rows in measured.items():
        known = set(rows["places"])
        if not rows.is_empty() and known.issuperset(places):
            of_places = ratio_of_seed(rows, settings, ["moved"])
            seeds[seed] = of_places._replace(statistic=partial(_mean, of_places.statistic))
    if not seeds:
        raise NotTested(
            f"the run puts no keys and values of {' and '.join(places)} tokens into other prompts "
            "(transplant.places), or label words differ in their number of tokens"
        )
    return Sampled(seeds)


def _mean(statistic: Statistic, weights: Array) -> Array:
    mean: Array = statistic(weights).mean(-1, keepdims=True)
    return mean


def moved_more(run: Run) -> Sampled:
    """What label words move, minus what as many text or template tokens move, mean of the two."""
    return minus(moved(run, "label"), moved(run, *_OTHERS))


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "label_words_carry",
        "Label words alone move the answer to another prompt's, and other tokens do not",
        "[A] §2",
        "share of the way to the answer with other label words, with keys and values of label "
        "words taken from there, minus with those of as many text or template tokens, all layers",
        "share of the way",
        moved_more,
        Control("as many text or template tokens, which the effect is the difference from"),
        UNTRAINED,
        bounded=False,
        place=2,
    ),
)
