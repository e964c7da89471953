"""How well kernel regression with each head's attention reconstructs predictions ([K] §5.2)."""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from anchorflow.analyses.kernel import KERNEL_SUMMARY as SUMMARY
from anchorflow.arrays import Array
from anchorflow.statistics import by_task
from anchorflow.statistics.by_task import texts_of
from anchorflow.statistics.estimates import (
    Estimate,
    SeedStatistic,
    Statistic,
    weighted_mean,
    weighted_mean_where_defined,
)


def head_keys(kernel: pl.DataFrame) -> pl.DataFrame:
    """Weights, layer, and head of each kernel regression, in the order of :func:`head_measures`."""
    return kernel.select("weights", "layer", "head").unique().sort("weights", "layer", "head")


def head_measures(kernel: pl.DataFrame, predictions: pl.DataFrame) -> dict[str, Array]:
    """The measures of every kernel regression on every example, for one model, task, and seed.

    ``agreement`` is 1 where a regression predicts the same label as the model, and ``accuracy``
    where it predicts the true label. ``correlation`` is as in the table, and ``permuted`` is
    agreement with labels permuted among the demonstrations. Each is [examples, regressions], with
    examples in increasing order.
    """
    compared = (
        kernel.rename({"prediction": "regression"})
        .join(predictions.select("example", "label", "prediction"), on="example")
        .sort("example", "weights", "layer", "head")
        .select(
            pl.col("regression")
            .eq_missing(pl.col("prediction"))
            .cast(pl.Float64)
            .alias("agreement"),
            pl.col("regression").eq_missing(pl.col("label")).cast(pl.Float64).alias("accuracy"),
            "correlation",
            pl.col("permuted").eq_missing(pl.col("prediction")).cast(pl.Float64),
        )
    )
    return {
        measure: compared[measure].fill_null(np.nan).to_numpy().reshape(len(predictions), -1)
        for measure in (*SUMMARY.measured, "permuted")
    }


def counted_measures(counts: pl.DataFrame) -> dict[str, Array]:
    """As :func:`head_measures`, with fewer demonstrations and without ``correlation``.

    ``counts`` are those of one number of demonstrations and one seed, in order of ``example``.
    """
    heads, permuted = (_matrix(counts[name]) for name in ("heads", "heads_permuted"))
    model, label = (counts[name].to_numpy()[:, None] for name in ("prediction", "label"))
    return {
        "agreement": (heads == model).astype(float),
        "accuracy": (heads == label).astype(float),
        "permuted": (permuted == model).astype(float),
    }


def _matrix(lists: pl.Series) -> Array:
    """Lists of equal length as [rows, items]; NaN for null."""
    return np.array(lists.to_list(), dtype=float).reshape(len(lists), -1)


def by_half(agreement: Array, accuracy: Array, examples: pl.Series, half_of: pl.DataFrame) -> Array:
    """Both measures on either half of the examples, and on all of them: [examples, 6 · heads].

    ``agreement`` and ``accuracy`` are [examples, heads], and ``half_of`` is from
    :func:`~anchorflow.random_draws.halves`. The result is agreement on part 0, on part 1, and on
    all examples; then accuracy likewise. It is NaN outside a part, so that means are over its
    examples alone.
    """
    placed = examples.to_frame("example").join(half_of, on="example", maintain_order="left")
    half = placed["half"].to_numpy()[:, None]
    columns = []
    for of_all in (agreement, accuracy):
        columns += [np.where(half == part, of_all, np.nan) for part in (0, 1)]
        columns.append(of_all)
    return np.concatenate(columns, 1)


def choose_head(scores: Estimate, chosen_on: float = 0.5) -> tuple[Estimate, Estimate]:
    """The head of highest agreement, scored on the examples that choose it and on others.

    Heads are chosen once, on the point estimates; intervals hold for the heads so chosen.

    ``scores``, [6 · heads], are those of :func:`by_half`, NaN where a half has no examples.
    ``chosen_on`` is the share of the texts in the first part, if the parts are not halves.

    Both results, [2], are accuracy and agreement: of the head with the highest agreement on all
    examples; and of the heads chosen on one half and scored on the other, averaged over both
    directions. If the parts are not halves, the head is chosen on the first part and scored on the
    second.

    Source: Han et al. 2025; §5.2 scores the head on the examples that choose it, §5.5 on others.
    """
    first, second, both = np.split(scores.values, 6)[:3]
    heads = len(both)

    def column(part: int, chosen_by: Array) -> int:
        # Agreement is at least 0, so a head without a score is never the best.
        best = np.where(np.isnan(chosen_by), -1, chosen_by).argmax()
        return int(part * heads + best)

    # Columns of accuracy (parts 3 to 5) and agreement (0 to 2); one_way is chosen on part 0.
    here = [column(5, both), column(2, both)]
    one_way = [column(4, first), column(1, first)]
    other_way = [column(3, second), column(0, second)] if chosen_on == 0.5 else one_way
    return (
        scores.map(lambda of: of[..., here]),
        scores.map(lambda of: (of[..., one_way] + of[..., other_way]) / 2),
    )


# The place of what always answers the same: no weights, and no head.
_CONSTANT = {"weights": pl.lit("none"), "layer": pl.lit(-1), "head": pl.lit(-1)}


def _most_frequent(labels: NDArray[np.int64]) -> Statistic:
    """Share of the most frequent label, [R, 1]."""
    of_label = np.equal.outer(labels, np.unique(labels)).astype(float)
    return lambda weights: weighted_mean(of_label)(weights).max(1, keepdims=True)


def summarize_kernel(
    kernel: pl.DataFrame, predictions: pl.DataFrame, prompts: pl.DataFrame, confidence: float
) -> pl.DataFrame:
    """Agreement, accuracy, and correlation of every layer and head, with intervals.

    Beside them stand the agreement and the accuracy of always answering the same.
    """
    by_task.require_examples(predictions)
    heads = pl.DataFrame({"measure": SUMMARY.measured}).join(head_keys(kernel), how="cross")
    constants = pl.DataFrame({"measure": SUMMARY.measured[:2]}).with_columns(**_CONSTANT)
    keys = pl.concat([heads, constants.select(heads.columns).cast(heads.schema)])

    def of_seed(rows: pl.DataFrame) -> SeedStatistic:
        same_cell = rows.select("task", "seed").unique()
        of_model = predictions.join(same_cell, on=["task", "seed"]).sort("example")
        measures = head_measures(rows, of_model)
        means = weighted_mean_where_defined(
            np.concatenate([measures[m] for m in SUMMARY.measured], 1)
        )
        most = [_most_frequent(of_model[name].to_numpy()) for name in ("prediction", "label")]

        def statistic(weights: Array) -> Array:
            return np.concatenate([means(weights), *(of(weights) for of in most)], 1)

        return SeedStatistic(statistic, texts_of(of_model))

    tasks = prompts["task"].unique(maintain_order=True).to_list()
    estimates = by_task.estimates_by_task(kernel, tasks, of_seed, len(keys))
    rows = by_task.summary_rows(estimates, keys, predictions, confidence, SUMMARY.bounds)
    skipped = by_task.skipped_prompts(prompts, "kernel")
    return by_task.summary_table(rows, predictions, SUMMARY, skipped)
