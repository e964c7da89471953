"""AUCROC_l: how well attention to the label words predicts the model's answer ([A] §2.3)."""

from collections.abc import Callable

import numpy as np

from anchorflow.arrays import Array
from anchorflow.summarize.by_task import texts_of
from anchorflow.summarize.claims._claim import Control, Run, Sampled
from anchorflow.summarize.claims._effects import several_layers
from anchorflow.summarize.deep import class_scores
from anchorflow.summarize.statistics import SeedStatistic, mean_where_defined, one_vs_one_auc

TELLS_NOTHING = "in no seed does the model predict two labels"


def of_auc(run: Run, effect: Callable[[Array], Array], rotated: bool = False) -> Sampled:
    """An effect of AUCROC_l, [..., L] to [..., 1].

    ``rotated`` attributes each label word's attention to another label instead: the mean AUC over
    all rotations of the labels by one place or more.
    """
    several_layers(run.rows("attention")["layer"].n_unique())
    predictions = run.by_seed("predictions")
    seeds = {}
    for seed, rows in run.by_seed("attention").items():
        told = predictions[seed].sort("example")
        scores = class_scores(rows, len(told["probabilities"][0]))
        predicted = told["prediction"].to_numpy().astype(np.int64)
        shifts = range(1, scores.shape[-1]) if rotated else (0,)
        aucs = [one_vs_one_auc(np.roll(scores, shift, -1), predicted) for shift in shifts]

        def mean_auc(weights: Array, aucs: list[Callable[[Array], Array]] = aucs) -> Array:
            return mean_where_defined(np.stack([auc(weights) for auc in aucs]), 0)

        seeds[seed] = SeedStatistic(mean_auc, texts_of(told))
    return Sampled(seeds, effect)


def other_labels(effect: Callable[[Array], Array]) -> Control:
    """The control of an effect of AUCROC_l."""

    def measure(run: Run) -> Sampled:
        return of_auc(run, effect, rotated=True)

    return Control("each label word's attention attributed to another label", measure)
