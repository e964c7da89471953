"""Whether key distances predict which labels are confused ([A] §3.3, Fig. 6, App. J)."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import polars as pl
from scipy.stats import rankdata

from anchorflow.analyses.confusion import CONFUSION_SUMMARY
from anchorflow.arrays import Array
from anchorflow.config.table import CORRELATION, SHARE
from anchorflow.statistics import by_task
from anchorflow.statistics.by_task import AVERAGE, texts_of
from anchorflow.statistics.estimates import SeedStatistic, Statistic, average, pairwise_auc

BOUNDS = {"auc": SHARE, "correlation": CORRELATION}


def confusion_measures(predictions: pl.DataFrame, confusion: pl.DataFrame) -> Statistic:
    """AUC of every pair of labels, and its rank correlation with distance in every layer.

    Of one task and seed, [R, pairs + L]; distances are held fixed. They are of one kind of
    ``heads``, since several would be ranked together.
    """
    if confusion["heads"].n_unique() > 1:
        raise ValueError(
            "distances are of several kinds of heads; pass one kind of heads at a time"
        )
    return _with_distances(predictions, [confusion])


def separated_pairs(predictions: pl.DataFrame) -> Statistic:
    """AUC of every pair of labels, [R, pairs].

    How well the log ratio of two labels' probabilities separates texts of the one from those of
    the other. A label that is likelier in all texts alike changes no AUC.
    """
    rows = predictions.sort("example")
    probabilities = np.array(rows["probabilities"].to_list(), dtype=np.float64)
    # Probabilities are float32, so 0 stands for less than the smallest normal number.
    scores = np.log(np.maximum(probabilities, np.finfo(np.float32).tiny))
    return pairwise_auc(scores, rows["label"].to_numpy())


def _with_distances(predictions: pl.DataFrame, kinds: Sequence[pl.DataFrame]) -> Statistic:
    """As :func:`confusion_measures`, for several kinds of distances: [R, pairs + kinds · L]."""
    auc = separated_pairs(predictions)
    distances = np.concatenate([_by_layer(kind) for kind in kinds])

    def statistic(weights: Array) -> Array:
        aucs = auc(weights)
        return np.concatenate([aucs, rank_correlations(aucs, distances)], 1)

    return statistic


def _by_layer(confusion: pl.DataFrame) -> Array:
    """Distances of one kind as [L, pairs]; NaN where they are null."""
    ordered = confusion.sort("layer", "label", "other")["distance"]
    distances = ordered.cast(pl.Float64).fill_null(np.nan).to_numpy()
    return distances.reshape(confusion["layer"].n_unique(), -1)


def summarize_confusion(
    predictions: pl.DataFrame, confusion: pl.DataFrame, prompts: pl.DataFrame, confidence: float
) -> pl.DataFrame:
    """Confusion of labels, distance between their keys, and the correlation of the two.

    Intervals are over seeds and examples, and distances have none. The average counts only examples
    of tasks that have a correlation.
    """
    by_task.require_examples(predictions)
    layers = confusion.select("heads", "layer").unique().sort("heads", "layer")
    of_layer = layers.with_columns(measure=pl.lit("correlation"))

    def of_seed(rows: pl.DataFrame) -> SeedStatistic:
        measured = confusion.join(rows.select("task", "seed").unique(), on=["task", "seed"])
        kinds = measured.sort("heads").partition_by("heads", maintain_order=True)
        return SeedStatistic(_with_distances(rows, kinds), texts_of(rows))

    parts, correlations = [], {}
    for task in prompts["task"].unique(maintain_order=True):
        rows = predictions.filter(task=task)
        measured = confusion.filter(task=task)
        pairs = measured.select("label", "other").unique().sort("label", "other")
        of_pair = pairs.with_columns(measure=pl.lit("auc"))
        estimate = (
            by_task.undefined(len(layers))
            if rows.is_empty()
            else by_task.estimate_over_seeds(rows, of_seed)
        )
        keys = pl.concat([of_pair, of_layer], how="diagonal")
        parts.append(by_task.summary_rows({task: estimate}, keys, predictions, confidence, BOUNDS))
        correlations[task] = estimate.map(partial(_without_first, len(pairs)))
        parts.append(_distances(measured, parts[-1]))
    defined = [task for task, found in correlations.items() if not np.isnan(found.values).all()]
    averaged = predictions.filter(pl.col("task").is_in(defined))
    overall = average(list(correlations.values()))
    parts.append(by_task.summary_rows({AVERAGE: overall}, of_layer, averaged, confidence, BOUNDS))
    summarized = pl.concat(parts, how="diagonal_relaxed")
    skipped = by_task.skipped_prompts(prompts, "fixed", predictions)
    return by_task.summary_table(summarized, predictions, CONFUSION_SUMMARY, skipped)


def _without_first(columns: int, values: Array) -> Array:
    return values[..., columns:]


def _distances(confusion: pl.DataFrame, summarized: pl.DataFrame) -> pl.DataFrame:
    """Distances of one task, averaged over seeds, as summary rows without intervals."""
    means = confusion.group_by("heads", "layer", "label", "other").agg(
        mean=pl.col("distance").mean(), seeds=pl.col("seed").n_unique()
    )
    return means.sort("heads", "layer", "label", "other").with_columns(
        task=pl.lit(summarized["task"][0]),
        measure=pl.lit("distance"),
        examples=pl.lit(summarized["examples"][0]),
        texts=pl.lit(summarized["texts"][0]),
    )


def rank_correlations(first: Array, second: Array) -> Array:
    """Spearman's ρ of every row of ``first`` [R, P] with every row of ``second`` [L, P].

    They are [R, L], over the columns in which both rows are defined; NaN with fewer than three such
    columns, or if a row is constant in them.
    """
    correlations = np.full((len(first), len(second)), np.nan)
    # Rows that are defined in the same columns are ranked together, which is faster.
    patterns, which = np.unique(~np.isnan(first), axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        rows = which.ravel() == number
        for layer, values in enumerate(second):
            defined = pattern & ~np.isnan(values)
            if defined.sum() >= 3:  # with two, ρ is ±1 whatever the values
                ranks = _standardized(rankdata(first[rows][:, defined], axis=1))
                others = _standardized(rankdata(values[defined])[None])
                correlations[rows, layer] = (ranks * others).sum(1)
    return correlations


def _standardized(ranks: Array) -> Array:
    """Rows shifted to mean 0 and scaled to length 1; NaN where a row is constant."""
    centered = ranks - ranks.mean(1, keepdims=True)
    length = np.sqrt((centered**2).sum(1, keepdims=True))
    unit: Array = np.divide(centered, length, out=np.full(ranks.shape, np.nan), where=length > 0)
    return unit
