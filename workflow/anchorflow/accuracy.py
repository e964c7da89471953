"""How good the model's in-context predictions are, and how many prompts were not run."""

from collections.abc import Callable

import numpy as np
import polars as pl

from anchorflow.draws import generator
from anchorflow.statistics import Array, Estimate, average, bootstrap
from anchorflow.summaries import (
    AVERAGE,
    per_seed,
    skipped_prompts,
    summary_rows,
    summary_table,
    undefined,
)
from anchorflow.tables import ACCURACY

MEASURES = ("accuracy", "macro_f1", "majority")


def accuracy_measures(
    labels: np.ndarray, predictions: np.ndarray, classes: int
) -> Callable[[Array], Array]:
    """The statistic (accuracy, macro-F1, majority share) for ``statistics.bootstrap``.

    Macro-F1 is the mean over all ``classes``; a class that neither occurs nor is predicted is
    left out. The majority share is what always answering the most frequent true label would get.

    Parameters
    ----------
    labels, predictions : [examples], int

    Returns
    -------
    function
        From weights [R, examples] to [R, 3].
    """
    true = np.eye(classes)[labels]
    guess = np.eye(classes)[predictions]

    def statistic(weights: Array) -> Array:
        total = weights.sum(1)
        hits = weights @ (true * guess)
        occurring, guessed = weights @ true, weights @ guess
        either = occurring + guessed
        f1 = np.divide(2 * hits, either, out=np.full(hits.shape, np.nan), where=either > 0)
        return np.stack([hits.sum(1) / total, np.nanmean(f1, 1), occurring.max(1) / total], 1)

    return statistic


def summarize_accuracy(
    predictions: pl.DataFrame, prompts: pl.DataFrame, replicates: int, confidence: float
) -> pl.DataFrame:
    """Accuracy, macro-F1 and majority share per task and averaged, with intervals.

    Parameters
    ----------
    predictions, prompts : DataFrame
        ``tables.PREDICTIONS`` and ``tables.PROMPTS`` of one model, all tasks and seeds.

    Returns
    -------
    DataFrame
        Columns of ``tables.ACCURACY``; ``skipped`` counts prompts with fixed demonstrations that
        exceed the model's context.
    """
    estimates: dict[str, Estimate] = {}
    for task in prompts["task"].unique(maintain_order=True):
        rows = predictions.filter(pl.col("task") == task)
        if rows.is_empty():
            estimates[task] = undefined(len(MEASURES), replicates)
            continue
        classes = len(rows["probabilities"][0])
        seeds = [(f["label"].to_numpy(), f["prediction"].to_numpy()) for f in per_seed(rows)]
        estimates[task] = bootstrap(
            [accuracy_measures(labels, guesses, classes) for labels, guesses in seeds],
            [len(labels) for labels, _ in seeds],
            replicates,
            generator(0, "accuracy", task),
        )
    estimates[AVERAGE] = average(list(estimates.values()))
    keys = pl.DataFrame({"measure": MEASURES})
    rows = summary_rows(estimates, keys, predictions, confidence)
    counted = rows.join(skipped_prompts(prompts, "fixed"), on="task", maintain_order="left")
    return summary_table(counted, prompts, ACCURACY)
