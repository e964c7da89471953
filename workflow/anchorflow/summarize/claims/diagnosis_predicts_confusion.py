"""Key distance of labels compared with how well they are distinguished ([A] §3.3, Fig. 6)."""

import polars as pl

from anchorflow.summarize.claims._claim import Claim, Curve, Depth, NotTested, Run, Sampled
from anchorflow.summarize.claims._effects import mean_of_layers, sampled
from anchorflow.summarize.confusion import confusion_measures
from anchorflow.summarize.depth import last_third

READS = ("diagnosis", "predictions")


def confusion_told(run: Run) -> Sampled:
    """Rank correlation of key distance with pairwise AUC, mean of the last third of the layers.

    Raises
    ------
    NotTested
        If there are fewer than three labels.
    """
    seeds = run.seeds("predictions")
    if len(seeds[0]["probabilities"][0]) < 3:
        raise NotTested("a rank correlation needs three labels or more")
    diagnosis = run.rows("diagnosis")
    layers = diagnosis["layer"].n_unique()
    measured = [
        (
            confusion_measures(seed, diagnosis.filter(pl.col("seed") == seed["seed"][0])),
            len(seed),
        )
        for seed in seeds
    ]
    return sampled(run, measured, lambda of: mean_of_layers(of[..., -layers:], last_third(layers)))


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "diagnosis_predicts_confusion",
        "Labels whose keys lie farther apart are told apart better",
        "[A] §3.3, Fig. 6",
        "rank correlation of key distance with pairwise AUC, last third of the layers",
        "Spearman's ρ",
        confusion_told,
        "in no layer are there three pairs of labels whose AUC and distance vary",
        over_depth=Depth(
            "rank correlation of key distance with AUC",
            (Curve("rank correlation", "confusion", {"measure": "correlation"}),),
        ),
    ),
)
