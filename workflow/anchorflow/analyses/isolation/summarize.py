"""Loyalty of predictions under isolation to those of the unmodified run ([A] §2.2, Fig. 4)."""

import polars as pl

from anchorflow.analyses.isolation import ISOLATION_SUMMARY as SUMMARY
from anchorflow.statistics.by_task import require_examples, skipped_prompts
from anchorflow.statistics.change import EXAMPLE_KEYS, RETAINED, with_loyalty
from anchorflow.statistics.estimates import Estimate
from anchorflow.statistics.settings import (
    draws_of,
    estimate_settings,
    settings_of,
    summarize_settings,
)


def summarize_isolation(
    isolation: pl.DataFrame, prompts: pl.DataFrame, confidence: float
) -> pl.DataFrame:
    """Loyalty, accuracy, and what is retained by setting; see :func:`summarize_settings`."""
    require_examples(isolation)
    isolated = isolation.filter(pl.col("positions") != "none")
    settings = settings_of(isolated, SUMMARY)

    def of_task(rows: pl.DataFrame) -> Estimate:
        return estimate_settings(loyalty_measures(rows), settings, SUMMARY.measured)

    return summarize_settings(
        SUMMARY,
        settings,
        of_task,
        isolation,
        prompts,
        confidence,
        counted=isolated,
        further=(draws_of(isolated, SUMMARY), skipped_prompts(prompts, "fixed")),
    )


def loyalty_measures(isolation: pl.DataFrame) -> pl.DataFrame:
    """The measures of :func:`with_loyalty` of every prediction but the unmodified run's.

    From the rows of one model and task, one row per seed, example, draw, and setting.
    """
    changed = isolation.filter(pl.col("positions") != "none")
    untouched, without = (isolation.filter(positions=name) for name in ("none", "hidden"))
    measured = with_loyalty(changed, untouched, without)
    return measured.select(
        *EXAMPLE_KEYS, "draw", *SUMMARY.settings, *SUMMARY.measured, f"{RETAINED}_whole"
    )
