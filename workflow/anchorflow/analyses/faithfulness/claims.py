"""Whether saliency and GIM rank layers as cutting does (after [A] §2, and Edin et al. 2025)."""

from functools import partial

import polars as pl

from anchorflow.analyses.faithfulness.summarize import faithfulness_measures
from anchorflow.claims.claim import DISCRIMINATING, Claim, Control, Run, Sampled
from anchorflow.statistics.by_task import ratio_of_seed

READS = ("faithfulness", "knockout")


def rank_of(
    run: Run, estimate: str = "saliency", measure: str = "rank", control: bool = False
) -> Sampled:
    """A measure of ranks over layers, of cutting label_to_target or random edges in its place."""
    cut = run.by_seed("knockout")
    setting = {"edges": "label_to_target", "control": control, "estimate": estimate}
    seeds = {}
    for seed, rows in run.by_seed("faithfulness").items():
        if seed in cut:
            wanted = rows.filter(pl.col("edges") == "label_to_target", pl.col("control") == control)
            measured = faithfulness_measures(wanted, cut[seed])
            if not measured.is_empty():
                seeds[seed] = ratio_of_seed(measured, [setting], [measure])
    lacking = "the run does not compare label_to_target with cutting it in single layers "
    return Sampled.of_any(seeds, lacking + "(faithfulness.classes)")


def gim_over_gradient(run: Run, control: bool = False) -> Sampled:
    """Rank correlation of GIM minus that of attention times gradient, within each prompt."""
    return rank_of(run, "gim", "rank_difference", control)


_ASKED_FOR = {
    "knockout": "knockout: {classes: [label_to_target, equal_to_target], layers: [thirds]}",
    "faithfulness": "faithfulness: {classes: [label_to_target]}",
}

CLAIMS = (
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
    # The softmax shifts attention elsewhere where much of it is cut, which random edges hold less.
    Claim(
        "gim_orders_layers",
        "GIM (Edin et al. 2025) ranks layers by the effect of cutting the target's attention to "
        "label words better than attention times gradient does",
        "[A] §2",
        "rank correlation over layers, within prompts, of the change that GIM predicts for cutting "
        "these edges in that layer alone with the change of the loss, by size, minus that of the "
        "change that attention times gradient predicts",
        "difference of rank correlations",
        gim_over_gradient,
        Control(
            "equally many random edges of the same rows", partial(gim_over_gradient, control=True)
        ),
        form=DISCRIMINATING,
        figure="faithfulness",
        asked_for=_ASKED_FOR,
    ),
)
