"""How loyal predictions stay to the untouched run under isolation ([A] §2.2, Fig. 4)."""

from collections.abc import Callable

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
from anchorflow.tables import LOYALTY

MEASURES = ("label_loyalty", "word_loyalty", "accuracy", "divergence")
_EXAMPLE = ["seed", "example"]
_SETTING = ["variant", "positions", "side", "layers"]


def loyalty_measures(isolation: pl.DataFrame) -> pl.DataFrame:
    """The four measures of every isolated prediction against the untouched one.

    Label loyalty is 1 where the predicted label is the same, else 0. Word loyalty is the Jaccard
    similarity |a ∩ b| / |a ∪ b| of the likeliest tokens a and b. The divergence is
    KL(untouched ‖ isolated) = Σ_c u_c log(u_c / i_c) of the label distributions, in nats, where
    probabilities below the smallest float32 count as that.

    Parameters
    ----------
    isolation : DataFrame
        ``tables.ISOLATION`` of one model and task.

    Returns
    -------
    DataFrame
        One row per isolated prediction: seed, example, draw, the setting, and the measures.

    Source: Wang et al. 2023, §2.2 (loyalty).
    """
    untouched = isolation.filter(pl.col("positions") == "none").select(
        *_EXAMPLE,
        pl.col("prediction").alias("before"),
        pl.col("probabilities").alias("was"),
        pl.col("top_tokens").alias("tokens"),
    )
    pairs = isolation.filter(pl.col("positions") != "none").join(untouched, on=_EXAMPLE)
    was = np.array(pairs["was"].to_list(), dtype=np.float64)
    now = np.array(pairs["probabilities"].to_list(), dtype=np.float64)
    tiny = np.finfo(np.float32).tiny
    divergence = (was * np.log(np.maximum(was, tiny) / np.maximum(now, tiny))).sum(-1)
    common = pl.col("top_tokens").list.set_intersection("tokens").list.len()
    either = pl.col("top_tokens").list.set_union("tokens").list.len()
    return pairs.select(
        *_EXAMPLE,
        "draw",
        *_SETTING,
        (pl.col("prediction") == pl.col("before")).cast(pl.Float64).alias("label_loyalty"),
        (common / either).alias("word_loyalty"),
        (pl.col("prediction") == pl.col("label")).cast(pl.Float64).alias("accuracy"),
        pl.Series("divergence", np.maximum(divergence, 0)),
    )


def summarize_loyalty(
    isolation: pl.DataFrame, prompts: pl.DataFrame, replicates: int, confidence: float
) -> pl.DataFrame:
    """Loyalty, accuracy and divergence per setting, task and averaged, with intervals.

    Intervals are over seeds, over examples, and for random positions over draws: each seed's
    replicate takes as many draws as there are, with replacement.

    Parameters
    ----------
    isolation, prompts : DataFrame
        ``tables.ISOLATION`` and ``tables.PROMPTS`` of one model, all tasks and seeds.

    Returns
    -------
    DataFrame
        Columns of ``tables.LOYALTY``; ``skipped`` counts prompts with fixed demonstrations that
        exceed the model's context.

    Raises
    ------
    InputError
        If there are no predictions.
    """
    require_examples(isolation)
    isolated = isolation.filter(pl.col("positions") != "none")
    settings = isolated.select(_SETTING).unique(maintain_order=True).sort(_SETTING)
    draws = isolated.group_by(_SETTING).agg(pl.col("draw").n_unique().cast(pl.Int32).alias("draws"))
    keys = settings.join(pl.DataFrame({"measure": MEASURES}), how="cross")
    estimates: dict[str, Estimate] = {}
    for task in prompts["task"].unique(maintain_order=True):
        rows = isolation.filter(pl.col("task") == task)
        if rows.is_empty():
            estimates[task] = undefined(len(keys), replicates)
            continue
        measured = loyalty_measures(rows)
        by_setting = []
        for setting in settings.iter_rows(named=True):
            chosen = measured.filter(pl.col(name) == value for name, value in setting.items())
            random = generator(0, "loyalty", task, *map(str, setting.values()))
            seeds = [_by_draw(frame) for frame in per_seed(chosen)]
            by_setting.append(
                bootstrap(
                    [mean_over_draws(values, replicates, random) for values in seeds],
                    [values.shape[1] for values in seeds],
                    replicates,
                    random,
                )
            )
        estimates[task] = Estimate(
            np.concatenate([estimate.values for estimate in by_setting]),
            np.concatenate([estimate.replicates for estimate in by_setting], 1),
        )
    estimates[AVERAGE] = average(list(estimates.values()))
    rows = summary_rows(estimates, keys, isolated, confidence)
    counted = rows.join(draws, on=_SETTING, maintain_order="left").join(
        skipped_prompts(prompts, "fixed"), on="task", maintain_order="left"
    )
    return summary_table(counted, isolation, LOYALTY)


def _by_draw(rows: pl.DataFrame) -> Array:
    """[draws, examples, measures] of one setting and seed."""
    draws = rows["draw"].n_unique()
    values = rows.sort("draw", "example").select(MEASURES).to_numpy()
    return values.reshape(draws, -1, len(MEASURES))


def mean_over_draws(
    values: Array, replicates: int, random: np.random.Generator
) -> Callable[[Array], Array]:
    """The statistic "mean of [draws, examples, K]" for ``statistics.bootstrap``.

    Without replicates, all draws count alike; each replicate takes draws with replacement.
    """
    draws = len(values)
    resampled = random.multinomial(draws, np.full(draws, 1 / draws), replicates) / draws

    def statistic(weights: Array) -> Array:
        shares = (
            resampled if len(weights) == replicates else np.full((len(weights), draws), 1 / draws)
        )
        shares_of_examples = weights / weights.sum(1, keepdims=True)
        mean: Array = np.einsum("rd,re,dek->rk", shares, shares_of_examples, values, optimize=True)
        return mean

    return statistic
