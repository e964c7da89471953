"""Whether saliency orders layers as cutting label words off in them does (after [A] §2)."""

import polars as pl

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
from anchorflow.summarize.faithful import faithfulness_measures

READS = ("faithfulness", "knockout")


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


CLAIMS: tuple[Claim, ...] = (
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
)
