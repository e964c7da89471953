"""Loyalty of predictions under isolation to those of the unmodified run ([A] §2.2, Fig. 4)."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from anchorflow.schemas.loyalty import LOYALTY
from anchorflow.summarize.by_task import (
    SHARE,
    estimate_over_seeds,
    over_tasks,
    require_examples,
    skipped_prompts,
    summary_rows,
    summary_table,
    texts_of,
)
from anchorflow.summarize.statistics import (
    Estimate,
    SeedStatistic,
    weighted_mean_where_defined,
)

MEASURES = ("label_loyalty", "word_loyalty", "accuracy", "divergence")
BOUNDS = dict.fromkeys(MEASURES[:3], SHARE)
_EXAMPLE = ["seed", "example"]
_SETTING = ["variant", "positions", "side", "layers"]


def with_loyalty(rows: pl.DataFrame, untouched: pl.DataFrame) -> pl.DataFrame:
    """Add label loyalty, word loyalty, and accuracy to every prediction.

    Label loyalty is 1 where the predicted label is that of the unmodified run, else 0. Word loyalty
    is the Jaccard similarity |a ∩ b| / |a ∪ b| of the sets a and b of most likely tokens.

    Parameters
    ----------
    rows, untouched : DataFrame
        Columns seed, example, label, prediction, probabilities, and top_tokens; ``untouched``, the
        unmodified run, has one row per seed and example.

    Returns
    -------
    DataFrame
        ``rows`` with these three columns, and ``was``, the probabilities of the unmodified run.

    Source: Wang et al. 2023, §2.2.
    """
    before = untouched.select(
        *_EXAMPLE,
        pl.col("prediction").alias("before"),
        pl.col("probabilities").alias("was"),
        pl.col("top_tokens").alias("tokens"),
    )
    common = pl.col("top_tokens").list.set_intersection("tokens").list.len()
    either = pl.col("top_tokens").list.set_union("tokens").list.len()
    return (
        rows.join(before, on=_EXAMPLE)
        .with_columns(
            (pl.col("prediction") == pl.col("before")).cast(pl.Float64).alias("label_loyalty"),
            (common / either).alias("word_loyalty"),
            (pl.col("prediction") == pl.col("label")).cast(pl.Float64).alias("accuracy"),
        )
        .drop("before", "tokens")
    )


def loyalty_measures(isolation: pl.DataFrame) -> pl.DataFrame:
    """The measures of every isolated prediction, relative to the unmodified run.

    These are those of :func:`with_loyalty` and the divergence KL(unmodified ‖ isolated) =
    Σ_c u_c log(u_c / i_c) of the label distributions, in nats, with probabilities clipped at the
    smallest normal float32.

    Parameters
    ----------
    isolation : DataFrame
        Table ``isolation`` of one model and task.

    Returns
    -------
    DataFrame
        One row per isolated prediction: seed, example, draw, the setting, and the measures.
    """
    untouched = pl.col("positions") == "none"
    pairs = with_loyalty(isolation.filter(~untouched), isolation.filter(untouched))
    was = np.array(pairs["was"].to_list(), dtype=np.float64)
    now = np.array(pairs["probabilities"].to_list(), dtype=np.float64)
    tiny = np.finfo(np.float32).tiny
    divergence = (was * np.log(np.maximum(was, tiny) / np.maximum(now, tiny))).sum(-1)
    measured = pairs.with_columns(pl.Series("divergence", np.maximum(divergence, 0)))
    return measured.select(*_EXAMPLE, "draw", *_SETTING, *MEASURES)


def summarize_loyalty(
    isolation: pl.DataFrame, prompts: pl.DataFrame, confidence: float
) -> pl.DataFrame:
    """Loyalty, accuracy, and divergence per setting and task, and averaged, with intervals.

    Every seed has its own draws of random positions, so intervals over seeds include them.

    Parameters
    ----------
    isolation, prompts : DataFrame
        Tables ``isolation`` and ``prompts`` of one model, all tasks and seeds.

    Returns
    -------
    DataFrame
        Columns of the table ``loyalty``; ``skipped`` counts prompts with fixed demonstrations that
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

    def of_task(rows: pl.DataFrame) -> Estimate:
        return estimate_settings(loyalty_measures(rows), settings, MEASURES)

    tasks = prompts["task"].unique(maintain_order=True).to_list()
    estimates = over_tasks(isolation, tasks, of_task, len(keys))
    rows = summary_rows(estimates, keys, isolated, confidence, BOUNDS)
    counted = rows.join(draws, on=_SETTING, maintain_order="left").join(
        skipped_prompts(prompts, "fixed"), on="task", maintain_order="left"
    )
    return summary_table(counted, isolation, LOYALTY)


def estimate_settings(
    measured: pl.DataFrame, settings: pl.DataFrame, measures: Sequence[str]
) -> Estimate:
    """The measures of each setting, with draws averaged first: every seed draws its own.

    Parameters
    ----------
    measured : DataFrame
        One row per seed, example, draw, and setting, of one task.
    settings : DataFrame
        The S settings; its columns are among those of ``measured``.
    measures : sequence of str
        M columns of ``measured``.

    Returns
    -------
    Estimate
        [S · M] values.
    """

    def of_seed(rows: pl.DataFrame) -> SeedStatistic:
        texts = rows.select(pl.col("example").unique().sort())
        values = [
            texts.join(
                mean_of_draws(chosen, measures), on="example", how="left", maintain_order="left"
            )
            .select(measures)
            .fill_null(np.nan)
            .to_numpy()
            for setting in settings.iter_rows(named=True)
            for chosen in [rows.filter(pl.col(n).eq_missing(value) for n, value in setting.items())]
        ]
        statistic = weighted_mean_where_defined(np.concatenate(values, 1))
        return SeedStatistic(statistic, texts_of(rows))

    return estimate_over_seeds(measured, of_seed)


def mean_of_draws(rows: pl.DataFrame, measures: Sequence[str]) -> pl.DataFrame:
    """Columns example and ``measures`` of one setting and seed, averaged over draws."""
    return rows.group_by("example").agg(pl.col(*measures).mean()).sort("example")
