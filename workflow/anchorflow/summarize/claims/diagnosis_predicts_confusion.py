"""Key distance of labels compared with how well they are told apart ([A] §3.3, Fig. 6)."""

import numpy as np
import polars as pl

from anchorflow.arrays import Array
from anchorflow.depth import last_third
from anchorflow.summarize.by_task import texts_of
from anchorflow.summarize.claims._claim import (
    Claim,
    Control,
    Curve,
    Depth,
    NotTested,
    Run,
    Sampled,
)
from anchorflow.summarize.claims._effects import mean_of_layers
from anchorflow.summarize.confusion import confusion_measures
from anchorflow.summarize.statistics import SeedStatistic, Statistic, mean_where_defined

READS = ("diagnosis", "predictions")


def confusion_told(run: Run, rotated: bool = False) -> Sampled:
    """Rank correlation of key distance with pairwise AUC, mean of the last third of the layers.

    ``rotated`` gives each label's distances to another label instead: the mean over all rotations
    of the labels by one place or more.

    Raises
    ------
    NotTested
        If there are fewer than three labels.
    """
    predictions = run.by_seed("predictions")
    first = next(iter(predictions.values()))
    classes = len(first["probabilities"][0])
    if classes < 3:
        raise NotTested("a rank correlation needs three labels or more")
    diagnosis = {
        seed: rows.filter(pl.col("heads") == "concatenated")
        for seed, rows in run.by_seed("diagnosis").items()
    }
    layers = run.rows("diagnosis")["layer"].n_unique()
    seeds = {}
    for seed, told in predictions.items():
        shifts = range(1, classes) if rotated else (0,)
        measures = [
            confusion_measures(told, shifted_labels(diagnosis[seed], shift, classes))
            for shift in shifts
        ]

        def statistic(weights: Array, measures: list[Statistic] = measures) -> Array:
            every = np.stack([measure(weights)[:, -layers:] for measure in measures])
            return mean_of_layers(mean_where_defined(every, 0), last_third(layers))

        seeds[seed] = SeedStatistic(statistic, texts_of(told))
    return Sampled(seeds)


def shifted_labels(diagnosis: pl.DataFrame, shift: int, classes: int) -> pl.DataFrame:
    """The table ``diagnosis`` with every label replaced by the one ``shift`` places on."""
    first, second = ((pl.col(name) + shift) % classes for name in ("label", "other"))
    return diagnosis.with_columns(
        label=pl.min_horizontal(first, second), other=pl.max_horizontal(first, second)
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "diagnosis_predicts_confusion",
        "Labels whose keys lie farther apart are told apart better",
        "[A] §3.3, Fig. 6",
        "rank correlation of key distance with pairwise AUC, last third of the layers",
        "Spearman's ρ",
        confusion_told,
        Control(
            "each label's distances given to another label",
            lambda run: confusion_told(run, rotated=True),
        ),
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
    ),
)
