"""Effects of knock-outs, transplants, and the context cutoff (after [A] §2)."""

from functools import partial

import polars as pl

from anchorflow.analyses.cutoff.summarize import cutoff_measures
from anchorflow.analyses.faithfulness.summarize import faithfulness_measures
from anchorflow.analyses.knockout.summarize import knockout_measures
from anchorflow.analyses.transplant.summarize import transplant_measures
from anchorflow.arrays import Array
from anchorflow.claims.claim import DISCRIMINATING, Claim, Control, NotMeasured, Run, Sampled
from anchorflow.claims.effects import EFFECT_RETAINED, difference_by_seed, minus, rows_with
from anchorflow.depth import last_third
from anchorflow.statistics.by_task import ratio_of_seed
from anchorflow.statistics.estimates import Statistic

READS = ("knockout", "transplant", "faithfulness", "cutoff")


def cut_over_as_heavy(run: Run) -> Sampled:
    """Log odds lost with S_pq's edges cut minus with others of equal attention, last third."""
    changes = knockout_measures(run.rows("knockout"))
    labels, others = (
        {"edges": edges, "band": "last", "control": False}
        for edges in ("label_to_target", "equal_to_target")
    )
    for setting in (labels, others):
        if rows_with(changes, setting).is_empty():
            raise NotMeasured(
                f"the run does not cut {setting['edges']} in the last third (knockout.classes, "
                "knockout.layers)",
                table="knockout",
            )
    return difference_by_seed(changes, [others], [labels], "log_odds_change")


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
    if not seeds:
        raise NotMeasured(
            f"the run takes no keys and values of {' and '.join(places)} tokens from prompts with "
            "other texts (transplant.places, transplant.donors)",
            table="transplant",
        )
    return Sampled(seeds)


def _mean(statistic: Statistic, weights: Array) -> Array:
    mean: Array = statistic(weights).mean(-1, keepdims=True)
    return mean


def moved_more(run: Run) -> Sampled:
    """Share moved by label words minus the mean of those moved by text and by template tokens."""
    return minus(moved(run, "label"), moved(run, *_OTHERS))


def rank_of(run: Run, estimate: str = "saliency") -> Sampled:
    """Rank correlation over layers of an estimate with the effect of cutting label_to_target."""
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
        raise NotMeasured(
            "the run does not compare label_to_target with cutting it in single layers "
            "(faithfulness.classes)"
        )
    return Sampled(seeds)


def seen_over_random(run: Run) -> Sampled:
    """Retained with label words seen minus with equally many other tokens, last third."""
    rows = run.rows("cutoff")
    depth = int(rows["layer"].to_numpy().max())
    begin = last_third(depth).start
    if rows.filter(sees="first", layer=0).is_empty():
        raise NotMeasured(
            "the run does not leave all demonstrations out (cutoff.sees lacks first)",
            table="cutoff",
        )
    layer = rows.filter(pl.col("layer") >= begin)["layer"].to_numpy().min()
    if layer == depth:
        raise NotMeasured("the run leaves no demonstrations out in the last third (cutoff.every)")
    settings = [{"sees": sees, "layer": int(layer)} for sees in ("label", "random")]
    return difference_by_seed(cutoff_measures(rows), settings[:1], settings[1:], "retained")


_ASKED_FOR = {
    "knockout": "knockout: {classes: [label_to_target, equal_to_target], layers: [thirds]}",
    "transplant": "transplant: {places: [label, text, template], donors: [other_texts]}",
    "faithfulness": "faithfulness: {classes: [label_to_target]}",
    "cutoff": "cutoff: {sees: [first, label, random]}",
}

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "cutting_label_words",
        "In late layers, the answer needs the target's attention to label words more than as much "
        "attention to other tokens",
        "[A] §2",
        "decrease of the true label's log odds with the target's attention to label words cut "
        "minus that with as much attention to random other tokens cut, last third of the layers",
        "nats",
        cut_over_as_heavy,
        Control.subtracted("random keys of equal attention"),
        form=DISCRIMINATING,
        figure="knockout",
        asked_for=_ASKED_FOR,
        question="In late layers, does the answer need the attention to label words?",
    ),
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
    Claim(
        "saliency_orders_layers",
        "Saliency ranks layers by the effect of cutting the target's attention to label words "
        "better than attention does",
        "[A] §2",
        "rank correlation over layers, within prompts, of S_pq with the absolute change of the "
        "loss when its edges are cut in that layer alone",
        "rank correlation",
        rank_of,
        Control(
            "attention from the target to label words in place of saliency",
            lambda run: rank_of(run, "attention"),
        ),
        form=DISCRIMINATING,
        figure="faithfulness",
        asked_for=_ASKED_FOR,
    ),
    Claim(
        "label_words_suffice_late",
        "In late layers, label words suffice in place of demonstrations, and other tokens do not",
        "[A] §2",
        "effect of the demonstrations retained with only label words seen in the last third of the "
        "layers minus that with equally many other tokens",
        EFFECT_RETAINED,
        seen_over_random,
        Control.subtracted("equally many other tokens"),
        form=DISCRIMINATING,
        figure="cutoff",
        asked_for=_ASKED_FOR,
    ),
)
