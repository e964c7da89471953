"""Whether saliency ranks layers as cutting does (after [A] §2)."""

import polars as pl

from anchorflow.analyses.faithfulness.summarize import faithfulness_measures
from anchorflow.claims.claim import DISCRIMINATING, Claim, Control, Run, Sampled
from anchorflow.statistics.by_task import ratio_of_seed

READS = ("faithfulness", "knockout")


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
    lacking = "the run does not compare label_to_target with cutting it in single layers "
    return Sampled.of_any(seeds, lacking + "(faithfulness.classes)")


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
)
