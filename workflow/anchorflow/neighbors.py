"""What similar demonstrations gain over random ones (Liu et al. 2022; explained by [K] §5)."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import polars as pl

from anchorflow.draws import generator
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
from anchorflow.tables import NEIGHBORS

CHOICES = ("random", "nearest", "nearest_per_label")
MEASURES = ("accuracy", "similarity", "same_label", "accuracy_gain")
RANDOM = "random"
_CELL = ("task", "seed", "example")


def neighbor_measures(rows: pl.DataFrame, choice: str) -> tuple[Callable[[Array], Array], int]:
    """The statistic (accuracy, similarity, same label, accuracy gain) of one choice and seed.

    The first three are over the examples run with this choice, the gain is over those run with
    random demonstrations too.

    Parameters
    ----------
    rows : DataFrame
        ``tables.RETRIEVAL`` of one task and seed.

    Returns
    -------
    tuple
        A function from weights [R, examples] to [R, 4], NaN where no example has weight; and the
        number of examples, those run with any choice.
    """
    scored = rows.select(
        "example",
        "choice",
        accuracy=(pl.col("prediction") == pl.col("label")).cast(pl.Float64),
        similarity="similarity",
        same_label="same_label",
    )
    random = scored.filter(pl.col("choice") == RANDOM).select("example", random="accuracy")
    values = (
        scored.select(pl.col("example").unique().sort())
        .join(scored.filter(pl.col("choice") == choice), on="example", how="left")
        .join(random, on="example", how="left")
        .sort("example")
        .with_columns(accuracy_gain=pl.col("accuracy") - pl.col("random"))
        .select(MEASURES)
        .fill_null(np.nan)
        .to_numpy()
    )  # [examples, 4]
    run = ~np.isnan(values)

    def statistic(weights: Array) -> Array:
        weight = weights @ run
        means: Array = np.divide(
            weights @ np.where(run, values, 0),
            weight,
            out=np.full(weight.shape, np.nan),
            where=weight > 0,
        )
        return means

    return statistic, len(values)


def summarize_neighbors(
    predictions: pl.DataFrame, prompts: pl.DataFrame, replicates: int, confidence: float
) -> pl.DataFrame:
    """Accuracy by choice of demonstrations, and its paired difference from random ones.

    Every choice's replicates resample the same examples, so differences are paired.

    Parameters
    ----------
    predictions, prompts : DataFrame
        ``tables.RETRIEVAL``, and ``tables.PROMPTS`` with fixed demonstrations and with every
        choice, of one model, all tasks and seeds.

    Returns
    -------
    DataFrame
        Columns of ``tables.NEIGHBORS``. Of the gain, ``examples`` counts pairs, and ``skipped``
        those of which either prompt was not run.

    Raises
    ------
    InputError
        If there are no predictions.
    """
    require_examples(predictions)
    protocols = prompts.with_columns(pl.col("demonstrations").replace("fixed", RANDOM))
    random = predictions.filter(pl.col("choice") == RANDOM)
    tasks = prompts["task"].unique(maintain_order=True).to_list()
    parts = []
    for choice in [name for name in CHOICES if name in protocols["demonstrations"]]:
        run = predictions.filter(pl.col("choice") == choice)
        estimates = _estimates(predictions, tasks, choice, replicates)
        # An average over fewer tasks than that of random ones could not be compared with it.
        estimates[AVERAGE] = (
            average(list(estimates.values()))
            if set(run["task"]) == set(random["task"])
            else undefined(len(MEASURES), replicates)
        )
        parts.append(
            _rows(estimates, MEASURES[:-1], run, confidence)
            .join(skipped_prompts(protocols, choice), on="task", maintain_order="left")
            .with_columns(choice=pl.lit(choice))
        )
        if choice != RANDOM:
            parts.append(
                _rows(estimates, MEASURES[-1:], run.join(random, on=_CELL, how="semi"), confidence)
                .join(_skipped_pairs(protocols, choice), on="task", maintain_order="left")
                .with_columns(choice=pl.lit(choice))
            )
    return summary_table(pl.concat(parts), predictions, NEIGHBORS)


def _estimates(
    predictions: pl.DataFrame, tasks: Sequence[str], choice: str, replicates: int
) -> dict[str, Estimate]:
    """The four measures of every task."""
    estimates: dict[str, Estimate] = {}
    for task in tasks:
        rows = predictions.filter(pl.col("task") == task)
        if rows.is_empty():
            estimates[task] = undefined(len(MEASURES), replicates)
            continue
        seeds = [neighbor_measures(seed, choice) for seed in per_seed(rows)]
        estimates[task] = bootstrap(
            [statistic for statistic, _ in seeds],
            [examples for _, examples in seeds],
            replicates,
            generator(0, "neighbors", task),
        )
    return estimates


def _rows(
    estimates: Mapping[str, Estimate],
    measures: Sequence[str],
    source: pl.DataFrame,
    confidence: float,
) -> pl.DataFrame:
    """Summary rows of some of the measures, which are over the examples of ``source``."""
    places = [MEASURES.index(measure) for measure in measures]
    some = {task: each.map(lambda values: values[..., places]) for task, each in estimates.items()}
    return summary_rows(some, pl.DataFrame({"measure": measures}), source, confidence)


def _skipped_pairs(protocols: pl.DataFrame, choice: str) -> pl.DataFrame:
    """How many examples were not run with random ones, or not with those of this choice."""
    pairs = (
        protocols.filter(pl.col("demonstrations").is_in([RANDOM, choice]))
        .group_by(_CELL, maintain_order=True)
        .agg(pl.col("skipped").drop_nulls().first())
    )
    return skipped_prompts(pairs.with_columns(demonstrations=pl.lit("pair")), "pair")
