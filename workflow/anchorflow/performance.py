"""[A] Table 1: what re-weighting gains over in-context learning as it is, and over the rest."""

from collections.abc import Callable

import numpy as np
import polars as pl

from anchorflow.accuracy import accuracy_measures
from anchorflow.draws import generator
from anchorflow.published import table_1
from anchorflow.statistics import Array, Estimate, average, bootstrap
from anchorflow.summaries import (
    AVERAGE,
    per_seed,
    require_examples,
    skipped_prompts,
    summary_rows,
    summary_table,
    undefined,
)
from anchorflow.tables import PERFORMANCE

METHODS = ("vanilla", "many", "calibrated", "attention_regression", "reweighted")
MEASURES = ("accuracy", "macro_f1", "accuracy_gain", "macro_f1_gain")


def performance_measures(
    rows: pl.DataFrame, method: str, classes: int
) -> tuple[Callable[[Array], Array], int]:
    """The statistic (accuracy, macro-F1, and both minus vanilla's) of one method and seed.

    All four are over the examples that the method was run on; a prompt with many demonstrations
    may have been too long where vanilla's was not.

    Parameters
    ----------
    rows : DataFrame
        ``tables.REWEIGHTING`` of one task and seed.

    Returns
    -------
    tuple
        A function from weights [R, examples] to [R, 4], NaN where no example has weight; and the
        number of examples, those of vanilla.
    """
    vanilla = rows.filter(pl.col("method") == "vanilla").sort("example")
    chosen = rows.filter(pl.col("method") == method).sort("example")
    run = vanilla["example"].is_in(chosen["example"].implode()).to_numpy()
    labels = chosen["label"].to_numpy()
    of_method = accuracy_measures(labels, chosen["prediction"].to_numpy(), classes)
    of_vanilla = accuracy_measures(labels, vanilla["prediction"].to_numpy()[run], classes)

    def statistic(weights: Array) -> Array:
        some = weights[:, run]
        measures = np.full((len(weights), 2), np.nan)
        gains = measures.copy()
        weighted = some.sum(1) > 0
        if weighted.any():
            measures[weighted] = of_method(some[weighted])[:, :2]
            gains[weighted] = measures[weighted] - of_vanilla(some[weighted])[:, :2]
        return np.concatenate([measures, gains], 1)

    return statistic, len(vanilla)


def summarize_performance(
    predictions: pl.DataFrame, prompts: pl.DataFrame, replicates: int, confidence: float
) -> pl.DataFrame:
    """Accuracy and macro-F1 of every method, and their paired differences from vanilla.

    Every method's replicates resample the same examples, so differences are paired.

    Parameters
    ----------
    predictions, prompts : DataFrame
        ``tables.REWEIGHTING`` and ``tables.PROMPTS`` of one model, all tasks and seeds.

    Returns
    -------
    DataFrame
        Columns of ``tables.PERFORMANCE``.

    Raises
    ------
    InputError
        If there are no predictions.
    """
    require_examples(predictions)
    keys = pl.DataFrame({"measure": MEASURES})
    tasks = prompts["task"].unique(maintain_order=True).to_list()
    published = table_1(predictions["model"][0], tasks)
    answered = {method: _tasks_of(predictions, method) for method in METHODS}
    parts = []
    for method in METHODS:
        estimates: dict[str, Estimate] = {}
        for task in tasks:
            rows = predictions.filter(pl.col("task") == task)
            if rows.is_empty():
                estimates[task] = undefined(len(MEASURES), replicates)
                continue
            classes = len(rows["probabilities"][0])
            seeds = [performance_measures(seed, method, classes) for seed in per_seed(rows)]
            estimates[task] = bootstrap(
                [statistic for statistic, _ in seeds],
                [examples for _, examples in seeds],
                replicates,
                generator(0, "performance", task),
            )
        # An average over fewer tasks than vanilla's could not be compared with it.
        estimates[AVERAGE] = (
            average(list(estimates.values()))
            if answered[method] == answered["vanilla"]
            else undefined(len(MEASURES), replicates)
        )
        run = predictions.filter(pl.col("method") == method)
        skipped = skipped_prompts(prompts, "many" if method == "many" else "fixed")
        parts.append(
            summary_rows(estimates, keys, run, confidence)
            .join(skipped, on="task", maintain_order="left")
            .with_columns(pl.lit(method).alias("method"))
        )
    rows = pl.concat(parts).join(
        published, on=["task", "method", "measure"], how="left", maintain_order="left"
    )
    to_itself = (pl.col("method") == "vanilla") & pl.col("measure").str.ends_with("_gain")
    return summary_table(rows.filter(~to_itself), predictions, PERFORMANCE)


def _tasks_of(predictions: pl.DataFrame, method: str) -> set[str]:
    return set(predictions.filter(pl.col("method") == method)["task"])
