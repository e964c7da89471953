"""Whether label words carry what texts say (after [A] §2), and only together ([H] §6)."""

from functools import partial

import numpy as np
import polars as pl

from anchorflow.analyses.transplant.summarize import transplant_measures
from anchorflow.arrays import Array
from anchorflow.claims.claim import DISCRIMINATING, Claim, Control, NotMeasured, Run, Sampled
from anchorflow.claims.effects import minus
from anchorflow.statistics.by_task import ratio_of_seed
from anchorflow.statistics.estimates import SeedStatistic, Statistic

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


# Donors with the same label words; the first of these that was run, as all tasks have it.
_SAME_WORDS = ("other_texts", "other_task")


def moved_at_best(run: Run, places: str, times: bool = False) -> Sampled:
    """Share of the way to the donor with the output of the best layer at these places.

    The layer of a seed's text is the best one for the other half of the texts in the other seeds.
    With ``times``, what the other label words' tokens add to it if each moves as much, up to the
    donor's whole way: a sum of shares may be more, but answers that have arrived move no further.
    """
    lacking = (
        f"the run takes no outputs of layers at {places} tokens, in two seeds, from prompts with "
        "the same label words (transplant.places, transplant.what, transplant.donors)"
    )
    measured = transplant_measures(run.rows("transplant")).filter(what="residual")
    donor = next((name for name in _SAME_WORDS if name in set(measured["donor"])), "")
    measured = measured.filter(donor=donor).with_columns(
        half=pl.col("example").rank("dense").cast(pl.Int32) % 2
    )
    rows, seeds = measured.filter(places=places), dict[int, SeedStatistic]()
    if rows["seed"].n_unique() < 2:
        raise NotMeasured(lacking, table="transplant")
    for seed in rows["seed"].unique().sort().to_list():
        of_seed = pl.col("seed") == seed
        chosen = []
        for half in (0, 1):
            others = rows.filter(~of_seed, pl.col("half") != half)
            by_layer = others.group_by("layer").agg(
                share=(pl.col("moved").sum() / pl.col("moved_whole").sum()).fill_nan(None)
            )
            best = by_layer.sort("share", "layer", descending=[True, False], nulls_last=True)
            here = rows.filter(of_seed, half=half)
            chosen.append(here.join(best.head(1), on="layer", how="semi"))
        own = pl.concat(chosen)
        if own.is_empty():  # the other half has no text
            continue
        found = ratio_of_seed(own, [{"places": places}], ["moved"])
        if times:
            tokens = measured.filter(of_seed).group_by("places").agg(pl.col("tokens").mean())
            mean = dict(tokens.iter_rows())
            if "label" not in mean:
                continue
            parts = partial(_with_sum, found.statistic, mean["label"] / mean[places])
            found = found._replace(statistic=parts)
        seeds[seed] = found
    measured_at_best = Sampled.of_any(seeds, lacking, table="transplant")
    return Sampled(measured_at_best.by_seed, _others_add) if times else measured_at_best


def _with_sum(statistic: Statistic, factor: float, weights: Array) -> Array:
    one = statistic(weights)
    return np.concatenate([one, factor * one], -1)


def _others_add(parts: Array) -> Array:
    """What is left of a sum of shares, at most the whole way, without one of them, [..., 1]."""
    added: Array = np.minimum(parts[..., 1:], 1) - parts[..., :1]
    return added


def moved_together(run: Run) -> Sampled:
    """Share moved by the outputs at all label words minus that by those at one of them."""
    return minus(moved_at_best(run, "label"), moved_at_best(run, "one_label"))


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
    # All label words move answers more than one of them in any network; where the moves of single
    # ones add up, by as much as their number says. A sum of shares may exceed the whole way, which
    # no answer does but by moving beyond the donor's: it counts as the whole way. Where single ones
    # add up to it, all together can't be clearly more, and the claim can't hold.
    Claim(
        "positions_carry_together",
        "All label words together carry what demonstrations show, more than single ones add up to",
        "[H] §6",
        "share of the way to the answer of a prompt with other texts and the same label words, "
        "with the output of a layer at all label words, minus that at one demonstration's alone, "
        "each after the layer that is best for other texts in other seeds",
        "share of the way",
        moved_together,
        Control(
            "what the other demonstrations' label words move if each moves as much as one alone, "
            "all of them at most the whole way; if they reach it, nothing is left to exceed it",
            lambda run: moved_at_best(run, "one_label", times=True),
        ),
        figure="transplant",
        asked_for={
            "transplant": "transplant: {places: [label, one_label], what: [residual], "
            "donors: [other_texts]}"
        },
    ),
)
