"""What chosen demonstrations gain over random ones (Liu et al. 2022; explained by [K] §4.2)."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import polars as pl

from anchorflow.arrays import Array
from anchorflow.schemas.neighbors import NEIGHBORS
from anchorflow.summarize.by_task import (
    AVERAGE,
    SHARE,
    estimates_by_task,
    require_examples,
    skipped_prompts,
    summary_rows,
    summary_table,
    texts_of,
    undefined,
)
from anchorflow.summarize.statistics import Estimate, SeedStatistic

CHOICES = (
    "random",
    "nearest",
    "nearest_per_label",
    "representative",
    "outlying",
    "other_task",
    "random_labels",
)
MEASURES = ("accuracy", "similarity", "same_label", "majority", "accuracy_gain")
BOUNDS = dict.fromkeys(("accuracy", "same_label", "majority"), SHARE)
RANDOM = "random"
_CELL = ("task", "seed", "example")


def majority(labels: pl.Series) -> int:
    """The most frequent of the demonstrations' labels; of several, the one that occurs last."""
    given: list[int] = labels.to_list()
    return max(reversed(given), key=given.count)


def neighbor_measures(rows: pl.DataFrame, choice: str) -> SeedStatistic:
    """The statistic of ``MEASURES`` of one choice and seed.

    All but the gain cover the examples run with this choice; the gain covers those that were also
    run with random demonstrations.

    Parameters
    ----------
    rows : DataFrame
        Table ``retrieval`` of one task and seed, with the demonstrations' majority, ``voted``.

    Returns
    -------
    SeedStatistic
        Of weights [R, examples] to [R, 5], NaN where no example has weight; and the examples run
        with any choice.
    """
    scored = rows.select(
        "example",
        "choice",
        accuracy=(pl.col("prediction") == pl.col("label")).cast(pl.Float64),
        similarity="similarity",
        same_label="same_label",
        majority=(pl.col("voted") == pl.col("label")).cast(pl.Float64),
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
    )  # [examples, 5]
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

    return SeedStatistic(statistic, texts_of(rows))


def summarize_neighbors(
    predictions: pl.DataFrame,
    prompts: pl.DataFrame,
    retrieved: pl.DataFrame,
    confidence: float,
) -> pl.DataFrame:
    """Accuracy by choice of demonstrations, and its paired difference from random ones.

    All choices are run on the same examples, so differences are paired.

    Parameters
    ----------
    predictions, prompts, retrieved : DataFrame
        Tables ``retrieval``, ``prompts`` (whose fixed demonstrations are the random choice), and
        ``prompts`` with retrieved demonstrations, of one model, all tasks and seeds.

    Returns
    -------
    DataFrame
        Columns of the table ``neighbors``. For the gain, ``examples`` counts pairs, and ``skipped``
        counts pairs of which either prompt was not run.

    Raises
    ------
    InputError
        If there are no predictions.
    """
    require_examples(predictions)
    fixed = prompts.filter(pl.col("demonstrations") == "fixed")
    protocols = pl.concat([fixed.with_columns(demonstrations=pl.lit(RANDOM)), retrieved])
    votes = protocols.select(
        *_CELL,
        choice="demonstrations",
        voted=pl.col("demonstration_labels").map_elements(majority, return_dtype=pl.Int32),
    )
    predictions = predictions.join(votes, on=[*_CELL, "choice"], how="left", maintain_order="left")
    random = predictions.filter(pl.col("choice") == RANDOM)
    tasks = protocols["task"].unique(maintain_order=True).to_list()
    parts = []
    for choice in [name for name in CHOICES if name in protocols["demonstrations"]]:
        run = predictions.filter(pl.col("choice") == choice)
        of_seed = partial(neighbor_measures, choice=choice)
        estimates = estimates_by_task(predictions, tasks, of_seed, len(MEASURES))
        # An average over fewer tasks would not be comparable with that of random ones.
        if set(run["task"]) != set(random["task"]):
            estimates[AVERAGE] = undefined(len(MEASURES))
        parts.append(
            _rows(estimates, MEASURES[:-1], run, confidence)
            .join(skipped_prompts(protocols, choice, run), on="task", maintain_order="left")
            .with_columns(choice=pl.lit(choice))
        )
        if choice != RANDOM:
            pairs = run.join(random, on=_CELL, how="semi")
            parts.append(
                _rows(estimates, MEASURES[-1:], pairs, confidence)
                .join(_skipped_pairs(protocols, choice, pairs), on="task", maintain_order="left")
                .with_columns(choice=pl.lit(choice))
            )
    return summary_table(pl.concat(parts), predictions, NEIGHBORS)


def _rows(
    estimates: Mapping[str, Estimate],
    measures: Sequence[str],
    source: pl.DataFrame,
    confidence: float,
) -> pl.DataFrame:
    """Summary rows of some of the measures, which cover the examples of ``source``."""
    places = [MEASURES.index(measure) for measure in measures]
    some = {task: each.map(lambda values: values[..., places]) for task, each in estimates.items()}
    return summary_rows(some, pl.DataFrame({"measure": measures}), source, confidence, BOUNDS)


def _skipped_pairs(protocols: pl.DataFrame, choice: str, answered: pl.DataFrame) -> pl.DataFrame:
    """Number of examples skipped with random demonstrations or with those of this choice."""
    pairs = (
        protocols.filter(pl.col("demonstrations").is_in([RANDOM, choice]))
        .group_by(_CELL, maintain_order=True)
        .agg(pl.col("skipped").drop_nulls().first())
    )
    return skipped_prompts(pairs.with_columns(demonstrations=pl.lit("pair")), "pair", answered)
