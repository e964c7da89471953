"""How well kernel regression on each head's attention reconstructs predictions ([K] §5.2)."""

import numpy as np
import polars as pl

from anchorflow.arrays import Array
from anchorflow.schemas.heads import HEADS
from anchorflow.summarize.by_task import (
    CORRELATION,
    SHARE,
    mean_by_task,
    require_examples,
    skipped_prompts,
    summary_rows,
    summary_table,
)
from anchorflow.summarize.statistics import Estimate

MEASURES = ("agreement", "accuracy", "correlation")
BOUNDS = {"agreement": SHARE, "accuracy": SHARE, "correlation": CORRELATION}


def head_keys(kernel: pl.DataFrame) -> pl.DataFrame:
    """Weights, layer and head of each kernel regression, in the order of :func:`head_measures`."""
    return kernel.select("weights", "layer", "head").unique().sort("weights", "layer", "head")


def head_measures(kernel: pl.DataFrame, predictions: pl.DataFrame) -> dict[str, Array]:
    """The measures of every kernel regression on every example of one model, task, and seed.

    Parameters
    ----------
    kernel, predictions : DataFrame
        Tables ``kernel`` and ``predictions``, with the same demonstrations.

    Returns
    -------
    dict
        ``agreement``: 1 where it predicts what the model predicts; ``accuracy``: 1 where it
        predicts the true label; ``correlation``: as in the table; ``permuted``: as agreement, with
        weights permuted among the demonstrations. Each [examples, regressions]; examples in
        increasing order.
    """
    compared = (
        kernel.rename({"prediction": "told"})
        .join(predictions.select("example", "label", "prediction"), on="example")
        .sort("example", "weights", "layer", "head")
        .select(
            pl.col("told").eq_missing(pl.col("prediction")).cast(pl.Float64).alias("agreement"),
            pl.col("told").eq_missing(pl.col("label")).cast(pl.Float64).alias("accuracy"),
            "correlation",
            pl.col("permuted").eq_missing(pl.col("prediction")).cast(pl.Float64),
        )
    )
    return {
        measure: compared[measure].fill_null(np.nan).to_numpy().reshape(len(predictions), -1)
        for measure in (*MEASURES, "permuted")
    }


def counted_measures(counts: pl.DataFrame) -> dict[str, Array]:
    """As :func:`head_measures`, with fewer demonstrations, without ``correlation``.

    Parameters
    ----------
    counts : DataFrame
        Table ``counts`` with one number of demonstrations, of one seed, in order of ``example``.
    """
    told, permuted = (_matrix(counts[name]) for name in ("heads", "heads_permuted"))
    model, label = (counts[name].to_numpy()[:, None] for name in ("prediction", "label"))
    return {
        "agreement": (told == model).astype(float),
        "accuracy": (told == label).astype(float),
        "permuted": (permuted == model).astype(float),
    }


def _matrix(lists: pl.Series) -> Array:
    """Lists of equal length as [rows, items]; NaN for null."""
    return np.array(lists.to_list(), dtype=float).reshape(len(lists), -1)


def by_half(agreement: Array, accuracy: Array, examples: pl.Series, half_of: pl.DataFrame) -> Array:
    """Both [examples, heads], each for either half of the examples and for all, side by side."""
    placed = examples.to_frame("example").join(half_of, on="example", maintain_order="left")
    half = placed["half"].to_numpy()[:, None]
    columns = []
    for of_all in (agreement, accuracy):
        columns += [np.where(half == part, of_all, np.nan) for part in (0, 1)]
        columns.append(of_all)
    return np.concatenate(columns, 1)


def choose_head(scores: Estimate, chosen_on: float = 0.5) -> tuple[Estimate, Estimate]:
    """The head of highest agreement, scored on the examples it was chosen on and on others.

    Heads are chosen once, by all examples; intervals are those of the heads so chosen.

    Parameters
    ----------
    scores : Estimate of [6 · heads]
        For all heads: agreement on one half of the texts, on the other half, and on all texts;
        then accuracy likewise. NaN where a half has no examples.
    chosen_on : float
        Share of the texts in the first half, if it is none.

    Returns
    -------
    tuple of Estimate of [2]
        Accuracy and agreement of the head with the highest agreement on all examples; and of the
        heads chosen on one half and scored on the other, averaged over both directions, or of the
        head that the first part chose, scored on the other, if parts are no halves.

    Source: Han et al. 2025; §5.2 scores the head on the examples that choose it, §5.5 on others.
    """
    first, second, both = np.split(scores.values, 6)[:3]
    heads = len(both)

    def column(part: int, chosen_by: Array) -> int:
        best = np.where(np.isnan(chosen_by), -1, chosen_by).argmax()
        return int(part * heads + best)

    here = [column(5, both), column(2, both)]
    one_way = [column(4, first), column(1, first)]
    other_way = [column(3, second), column(0, second)] if chosen_on == 0.5 else one_way
    return (
        scores.map(lambda of: of[..., here]),
        scores.map(lambda of: (of[..., one_way] + of[..., other_way]) / 2),
    )


def summarize_heads(
    kernel: pl.DataFrame,
    predictions: pl.DataFrame,
    prompts: pl.DataFrame,
    confidence: float,
) -> pl.DataFrame:
    """Agreement, accuracy, and correlation of every layer and head, with intervals.

    Parameters
    ----------
    kernel, predictions, prompts : DataFrame
        Tables ``kernel``, ``predictions``, and ``prompts``, with the same demonstrations, of one
        model, all tasks and seeds.

    Returns
    -------
    DataFrame
        Columns of the table ``heads``.

    Raises
    ------
    InputError
        If there are no predictions.
    """
    require_examples(predictions)
    keys = pl.DataFrame({"measure": MEASURES}).join(head_keys(kernel), how="cross")

    def of_seed(rows: pl.DataFrame) -> Array:
        same_cell = rows.select("task", "seed").unique()
        of_model = predictions.join(same_cell, on=["task", "seed"])
        measures = head_measures(rows, of_model)
        return np.concatenate([measures[measure] for measure in MEASURES], 1)

    tasks = prompts["task"].unique(maintain_order=True).to_list()
    estimates = mean_by_task(kernel, tasks, of_seed, len(keys))
    skipped = skipped_prompts(prompts, "kernel")
    counted = summary_rows(estimates, keys, predictions, confidence, BOUNDS).join(
        skipped, on="task", maintain_order="left"
    )
    return summary_table(counted, predictions, HEADS)
