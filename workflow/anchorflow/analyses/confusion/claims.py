"""Whether distances of keys tell which labels are confused ([A] §3.3)."""

import numpy as np
import polars as pl

from anchorflow.analyses.confusion.summarize import confusion_measures
from anchorflow.arrays import Array
from anchorflow.claims.claim import Claim, Control, Curve, Depth, NotMeasured, Run, Sampled
from anchorflow.claims.effects import mean_of_layers
from anchorflow.depth import last_third
from anchorflow.statistics.by_task import texts_of
from anchorflow.statistics.estimates import SeedStatistic, Statistic, mean_where_defined

READS = ("confusion", "predictions")


def predicted_confusion(run: Run, rotated: bool = False) -> Sampled:
    """Rank correlation of key distance with pairwise AUC, mean of the last third of the layers.

    ``rotated`` assigns each label's distances to another label instead: the mean over all rotations
    of the labels by one place or more.
    """
    predictions, measured = run.by_seed("predictions"), run.by_seed("confusion")
    first = next(iter(predictions.values()))
    classes = len(first["probabilities"][0])
    if classes < 3:
        raise NotMeasured("a rank correlation needs three labels or more")
    confusion = {
        seed: rows.filter(pl.col("heads") == "concatenated") for seed, rows in measured.items()
    }
    layers = run.rows("confusion")["layer"].n_unique()
    seeds = {}
    for seed in measured:  # of the seeds that are predicted, the first ones
        predicted = predictions[seed]
        shifts = range(1, classes) if rotated else (0,)
        measures = [
            confusion_measures(predicted, shifted_labels(confusion[seed], shift, classes))
            for shift in shifts
        ]

        def statistic(weights: Array, measures: list[Statistic] = measures) -> Array:
            every = np.stack([measure(weights)[:, -layers:] for measure in measures])
            return mean_of_layers(mean_where_defined(every, 0), last_third(layers))

        seeds[seed] = SeedStatistic(statistic, texts_of(predicted))
    return Sampled(seeds)


def shifted_labels(confusion: pl.DataFrame, shift: int, classes: int) -> pl.DataFrame:
    """The table ``confusion`` with every label replaced by the one ``shift`` places on."""
    first, second = ((pl.col(name) + shift) % classes for name in ("label", "other"))
    return confusion.with_columns(
        label=pl.min_horizontal(first, second), other=pl.max_horizontal(first, second)
    )


CLAIMS = (
    Claim(
        "diagnosis_predicts_confusion",
        "Labels whose keys lie farther apart are confused less",
        "[A] §3.3, Fig. 6",
        "rank correlation of key distance with pairwise AUC, last third of the layers",
        "Spearman's ρ",
        predicted_confusion,
        Control(
            "each label's distances assigned to another label",
            lambda run: predicted_confusion(run, rotated=True),
        ),
        null="",
        undefined="in no layer are there three pairs of labels whose AUC and distance vary",
        over_depth=Depth(
            "rank correlation of key distance with AUC",
            (
                Curve(
                    "rank correlation",
                    "confusion",
                    {"measure": "correlation", "heads": "concatenated"},
                ),
            ),
        ),
        figure="confusion",
    ),
)
