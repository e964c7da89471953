"""Loyalty of predictions under isolation to those of the unmodified run ([A] §2.2, Fig. 4)."""

import numpy as np
import polars as pl

from anchorflow.analyses.isolation.schema import ISOLATION_SUMMARY
from anchorflow.statistics import accuracy_change as change
from anchorflow.statistics.by_task import (
    SHARE,
    over_tasks,
    require_examples,
    skipped_prompts,
    summary_rows,
    summary_table,
)
from anchorflow.statistics.estimates import Estimate
from anchorflow.statistics.loyalty import EXAMPLE_KEYS, estimate_settings, with_loyalty

_LOYALTY = ("label_loyalty", "word_loyalty", "accuracy")
MEASURES = (*_LOYALTY, "divergence", *change.CHANGES, *change.VOCABULARY)
BOUNDS = {**dict.fromkeys(_LOYALTY, SHARE), **change.BOUNDS}
_SETTING = ["variant", "positions", "side", "layers"]


def summarize_isolation(
    isolation: pl.DataFrame, prompts: pl.DataFrame, confidence: float
) -> pl.DataFrame:
    """Loyalty, accuracy, and divergence by setting, per task and averaged, with intervals.

    Random positions are drawn anew for each seed, so intervals over seeds include their variation.

    Parameters
    ----------
    isolation, prompts : DataFrame
        Tables ``isolation`` and ``prompts`` for one model, all tasks and seeds.

    Returns
    -------
    DataFrame
        Columns of ``ISOLATION_SUMMARY``; ``skipped`` counts prompts with fixed demonstrations that
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
    return summary_table(counted, isolation, ISOLATION_SUMMARY)


def loyalty_measures(isolation: pl.DataFrame) -> pl.DataFrame:
    """The measures of every prediction under isolation, relative to the unmodified run.

    All but one are those of :func:`with_loyalty`. The divergence is KL(u ‖ i) =
    Σ_c u_c log(u_c / i_c), in nats, of the label distributions of the unmodified run (u) and under
    isolation (i), with probabilities clipped at the smallest normal float32.

    Parameters
    ----------
    isolation : DataFrame
        Table ``isolation`` for one model and task.

    Returns
    -------
    DataFrame
        One row per prediction under isolation: seed, example, draw, setting, and measures.
    """
    untouched = pl.col("positions") == "none"
    pairs = with_loyalty(isolation.filter(~untouched), isolation.filter(untouched))
    was = np.array(pairs["was"].to_list(), dtype=np.float64)
    now = np.array(pairs["probabilities"].to_list(), dtype=np.float64)
    tiny = np.finfo(np.float32).tiny
    divergence = (was * np.log(np.maximum(was, tiny) / np.maximum(now, tiny))).sum(-1)
    # Rounding can make the divergence of equal distributions negative.
    measured = pairs.with_columns(pl.Series("divergence", np.maximum(divergence, 0)))
    return measured.select(*EXAMPLE_KEYS, "draw", *_SETTING, *MEASURES)
