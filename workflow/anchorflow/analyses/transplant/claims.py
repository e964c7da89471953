"""Whether label words carry what the texts say (after [A] §2)."""

from functools import partial

from anchorflow.analyses.transplant.summarize import transplant_measures
from anchorflow.arrays import Array
from anchorflow.claims.claim import DISCRIMINATING, Claim, Control, Run, Sampled
from anchorflow.claims.effects import minus
from anchorflow.statistics.by_task import ratio_of_seed
from anchorflow.statistics.estimates import Statistic

READS = ("transplant",)


_OTHERS = ("text", "template")


def moved(run: Run, *places: str) -> Sampled:
    """Share of the way to the donor's probabilities with all keys and values at these places.

    The mean over ``places``, with donors of other texts.
    """
    measured = {seed: transplant_measures(rows) for seed, rows in run.by_seed("transplant").items()}
    settings = [
        {"donor": "other_texts", "what": "keys_values", "places": name, "side": "all"}
        for name in places
    ]
    seeds = {}
    for seed, rows in measured.items():
        taken = rows.filter(donor="other_texts", what="keys_values", side="all")
        if set(taken["places"]).issuperset(places):
            of_places = ratio_of_seed(rows, settings, ["moved"])
            seeds[seed] = of_places._replace(statistic=partial(_mean, of_places.statistic))
    lacking = (
        f"the run takes no keys and values of {' and '.join(places)} tokens from prompts with "
        "other texts (transplant.places, transplant.donors)"
    )
    return Sampled.of_any(seeds, lacking, table="transplant")


def _mean(statistic: Statistic, weights: Array) -> Array:
    mean: Array = statistic(weights).mean(-1, keepdims=True)
    return mean


def moved_more(run: Run) -> Sampled:
    """Share moved by label words minus the mean of those moved by text and by template tokens."""
    return minus(moved(run, "label"), moved(run, *_OTHERS))


_ASKED_FOR = {"transplant": "transplant: {places: [label, text, template], donors: [other_texts]}"}

CLAIMS = (
    # Donor and recipient have the same label words, whose keys and values differ by what they have
    # gathered from the texts, while tokens of the texts differ from the first layer on.
    Claim(
        "label_words_carry",
        "Label words carry what the demonstrations' texts say, more than as many other tokens do",
        "[A] §2",
        "share of the way to the answer of a prompt with other texts and the same label words, "
        "with keys and values of its label words, minus that with those of equally many text or "
        "template tokens, all layers",
        "share of the way",
        moved_more,
        Control.subtracted("equally many text or template tokens"),
        form=DISCRIMINATING,
        figure="transplant",
        asked_for=_ASKED_FOR,
        question="Do label words carry what the texts say, more than as many other tokens?",
    ),
)
