"""Accuracy of in-context learning, and the number of skipped prompts."""

from collections.abc import Callable

import numpy as np
import polars as pl

from anchorflow.analyses.accuracy import ACCURACY_SUMMARY as SUMMARY
from anchorflow.analyses.accuracy.calibration import gaps, with_calibration
from anchorflow.arrays import Array
from anchorflow.statistics.by_task import estimate_over_seeds, skipped_prompts, texts_of
from anchorflow.statistics.change import VOCABULARY
from anchorflow.statistics.estimates import SeedStatistic, weighted_mean_where_defined
from anchorflow.statistics.settings import summarize_settings


def accuracy_measures(
    labels: np.ndarray, predictions: np.ndarray, classes: int
) -> Callable[[Array], Array]:
    """Accuracy, macro-F1, and majority share as a function of the examples' weights.

    Macro-F1 is the mean F1 over classes, without those that neither occur nor are predicted.
    The majority share is the accuracy of always predicting the most frequent true label.

    The result maps weights [R, examples] to [R, 3], for :mod:`~anchorflow.statistics.estimates`.
    """
    true = np.eye(classes)[labels]
    guess = np.eye(classes)[predictions]

    def statistic(weights: Array) -> Array:
        total = weights.sum(1)
        hits = weights @ (true * guess)
        occurring, guessed = weights @ true, weights @ guess
        either = occurring + guessed
        # A class with neither texts nor predictions has F1 = 0/0: NaN, which nanmean leaves out.
        f1 = np.divide(2 * hits, either, out=np.full(hits.shape, np.nan), where=either > 0)
        return np.stack([hits.sum(1) / total, np.nanmean(f1, 1), occurring.max(1) / total], 1)

    return statistic


def summarize_accuracy(
    predictions: pl.DataFrame, prompts: pl.DataFrame, confidence: float
) -> pl.DataFrame:
    """Accuracy, macro-F1, majority share, how probable label words are, and calibration.

    ``skipped`` counts prompts with fixed demonstrations that exceed the model's context.
    """

    def of_seed(rows: pl.DataFrame) -> SeedStatistic:
        ordered = rows.sort("example")
        labels, guesses = ordered["label"].to_numpy(), ordered["prediction"].to_numpy()
        of_labels = accuracy_measures(labels, guesses, len(rows["probabilities"][0]))
        in_vocabulary = weighted_mean_where_defined(
            ordered.select(VOCABULARY).cast(pl.Float64).fill_null(np.nan).to_numpy()
        )

        of_bins = gaps(rows)

        def statistic(weights: Array) -> Array:
            return np.concatenate([of_labels(weights), in_vocabulary(weights), of_bins(weights)], 1)

        return SeedStatistic(statistic, texts_of(rows))

    return summarize_settings(
        SUMMARY,
        None,
        lambda rows: estimate_over_seeds(rows, of_seed).map(with_calibration),
        predictions,
        prompts,
        confidence,
        further=(skipped_prompts(prompts, "fixed", predictions),),
    )
