"""How well kernel regression on each head's attention reconstructs predictions ([K] §5.2)."""

import numpy as np
import polars as pl

from anchorflow.arrays import Array
from anchorflow.schemas.heads import HEADS
from anchorflow.summarize.by_task import (
    mean_by_task,
    require_examples,
    skipped_prompts,
    summary_rows,
    summary_table,
)

MEASURES = ("agreement", "accuracy", "correlation")


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
    counted = summary_rows(estimates, keys, predictions, confidence).join(
        skipped, on="task", maintain_order="left"
    )
    return summary_table(counted, predictions, HEADS)
