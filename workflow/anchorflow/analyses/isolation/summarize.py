"""Loyalty of predictions under isolation to those of the unmodified run ([A] §2.2, Fig. 4)."""

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
from anchorflow.statistics.loyalty import (
    AT_MOST_ALL,
    EXAMPLE_KEYS,
    RETAINED,
    estimate_settings,
    with_loyalty,
)

_LOYALTY = ("label_loyalty", "word_loyalty", "accuracy")
MEASURES = (*_LOYALTY, RETAINED, *change.CHANGES, *change.VOCABULARY)
BOUNDS = {**dict.fromkeys(_LOYALTY, SHARE), RETAINED: AT_MOST_ALL, **change.BOUNDS}
_SETTING = ["variant", "positions", "side", "layers"]


def summarize_isolation(
    isolation: pl.DataFrame, prompts: pl.DataFrame, confidence: float
) -> pl.DataFrame:
    """Loyalty, accuracy, and what is retained by setting, per task and averaged, with intervals.

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
    """The measures of :func:`with_loyalty` of every prediction but the unmodified run's.

    Parameters
    ----------
    isolation : DataFrame
        Table ``isolation`` for one model and task.

    Returns
    -------
    DataFrame
        One row per prediction: seed, example, draw, setting, and measures.
    """
    changed = isolation.filter(pl.col("positions") != "none")
    untouched, without = (isolation.filter(positions=name) for name in ("none", "hidden"))
    measured = with_loyalty(changed, untouched, without)
    return measured.select(*EXAMPLE_KEYS, "draw", *_SETTING, *MEASURES, f"{RETAINED}_whole")
