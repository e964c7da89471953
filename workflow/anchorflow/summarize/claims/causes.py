"""What cutting edges, other vectors, and fewer demonstrations change (after [A] §2)."""

from functools import partial

import polars as pl

from anchorflow.arrays import Array
from anchorflow.depth import last_third
from anchorflow.summarize.by_task import ratio_of_seed
from anchorflow.summarize.claims._claim import (
    DISCRIMINATING,
    UNTRAINED,
    Claim,
    Control,
    NotTested,
    Run,
    Sampled,
)
from anchorflow.summarize.claims._effects import UNCHANGED, difference_by_seed, minus
from anchorflow.summarize.cutoffs import cutoff_measures
from anchorflow.summarize.faithful import faithfulness_measures
from anchorflow.summarize.knockouts import knockout_measures
from anchorflow.summarize.statistics import Statistic
from anchorflow.summarize.transplants import transplant_measures

READS = (
    "knockout",
    "transplant",
    "faithfulness",
    "cutoff",
)


def cut_over_random(run: Run) -> Sampled:
    """Mean absolute change of the loss with S_pq's edges cut minus with random ones, last third."""
    changes = knockout_measures(run.rows("knockout"))
    edges, random = (
        {"edges": "label_to_target", "band": "last", "control": control}
        for control in (False, True)
    )
    for setting, lacking in (
        (edges, "label_to_target in the last third (knockout.classes, knockout.layers)"),
        (random, "random edges in place of these (knockout.draws)"),
    ):
        if changes.filter(pl.col(name) == value for name, value in setting.items()).is_empty():
            raise NotTested(f"the run does not cut {lacking}")
    return difference_by_seed(changes, [edges], [random], "loss_size")


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


def rank_of(run: Run, estimate: str = "saliency") -> Sampled:
    """Rank correlation over layers of an estimate with cutting, of label words to the target."""
    cut = run.by_seed("knockout")
    setting = {"edges": "label_to_target", "control": False, "estimate": estimate}
    seeds = {}
    for seed, rows in run.by_seed("faithfulness").items():
        if seed in cut:
            wanted = rows.filter(pl.col("edges") == "label_to_target", ~pl.col("control"))
            measured = faithfulness_measures(wanted, cut[seed])
            if not measured.is_empty():
                seeds[seed] = ratio_of_seed(measured, [setting], ["rank"])
    if not seeds:
        raise NotTested(
            "the run does not compare label_to_target with cutting it in single layers "
            "(faithfulness.classes)"
        )
    return Sampled(seeds)


def seen_over_random(run: Run) -> Sampled:
    """Label loyalty with label words seen minus with as many other tokens, last third."""
    rows = run.rows("cutoff")
    depth = int(rows["layer"].to_numpy().max())
    begin = last_third(depth).start
    layer = rows.filter(pl.col("layer") >= begin)["layer"].to_numpy().min()
    if layer == depth:
        raise NotTested("the run leaves no demonstrations out in the last third (cutoff.every)")
    settings = [{"sees": sees, "layer": int(layer)} for sees in ("label", "random")]
    return difference_by_seed(cutoff_measures(rows), settings[:1], settings[1:], "label_loyalty")


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "cutting_label_words",
        "Late, cutting label words off from the target changes the answer more than cutting random "
        "tokens off",
        "[A] §2",
        "absolute change of the loss with attention from the target to label words cut, minus with "
        "as many random keys near them, last third of the layers",
        "nats",
        cut_over_random,
        Control("random keys of the same row, which the effect is the difference from"),
        UNTRAINED,
        DISCRIMINATING,
        bounded=False,
        place=1,
    ),
    # The claim discriminates nothing: in a network without training, little has spread from the
    # tokens in which the two prompts differ, so its label words move the answer too.
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
    Claim(
        "saliency_orders_layers",
        "Saliency orders layers as cutting label words off from the target does, better than "
        "attention",
        "[A] §2",
        "rank correlation over layers, within prompts, of S_pq with the size of the change of the "
        "loss when its edges are cut in that layer alone",
        "rank correlation",
        rank_of,
        Control(
            "attention from the target to label words in place of saliency",
            lambda run: rank_of(run, "attention"),
        ),
        UNTRAINED,
        DISCRIMINATING,
        place=3,
    ),
    Claim(
        "label_words_suffice_late",
        "Late, label words are enough of the demonstrations, and other tokens are not",
        "[A] §2",
        "label loyalty with only label words seen in the last third of the layers minus with as "
        "many other tokens",
        UNCHANGED,
        seen_over_random,
        Control("as many other tokens, which the effect is the difference from"),
        UNTRAINED,
        DISCRIMINATING,
        place=4,
    ),
)
