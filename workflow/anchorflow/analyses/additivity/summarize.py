"""How well single demonstrations compose all of them, by layer and in answers."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import polars as pl

from anchorflow.analyses.additivity import ADDITIVITY_SUMMARY as SUMMARY
from anchorflow.analyses.additivity import OF_ANSWERS, OF_LAYERS
from anchorflow.statistics.by_task import require_examples
from anchorflow.statistics.estimates import Estimate
from anchorflow.statistics.settings import (
    estimate_settings,
    settings_of,
    summarize_settings,
    unclear_wholes,
)


def answers(additivity: pl.DataFrame) -> pl.DataFrame:
    """The rows of answers, with ``gained`` and what it is a share of."""
    rows = additivity.filter(layer=-1)
    keys = ["task", "seed", "example"]
    for name in ("one", "whole"):
        of_kind = rows.filter(kind=name).select(*keys, pl.col("log_odds").alias(name))
        rows = rows.join(of_kind, on=keys, how="left", maintain_order="left")
    return rows.with_columns(
        gained=pl.col("log_odds") - pl.col("one"), gained_whole=pl.col("whole") - pl.col("one")
    )


def _of_task(
    rows: pl.DataFrame, settings: pl.DataFrame, names: Sequence[str], confidence: float
) -> Estimate:
    """Means of one task, without ``gained`` where all demonstrations do not clearly gain."""
    estimated = estimate_settings(rows, settings, names)
    whole = rows.filter(kind="whole")
    if "gained" not in names or not unclear_wholes(whole, ["gained"], confidence):
        return estimated
    others = np.array([name != "gained" for name in names] * len(settings))
    return estimated.map(lambda values: np.where(others, values, np.nan))


def summarize_additivity(
    additivity: pl.DataFrame, prompts: pl.DataFrame, confidence: float
) -> pl.DataFrame:
    """Means over texts and seeds; see :func:`summarize_settings`."""
    require_examples(additivity)
    of_layers = additivity.filter(pl.col("layer") >= 0)
    parts = []
    for rows, measures in ((of_layers, OF_LAYERS), (answers(additivity), OF_ANSWERS)):
        names, settings = [measure.name for measure in measures], settings_of(rows, SUMMARY)
        of_task = partial(_of_task, settings=settings, names=names, confidence=confidence)
        summarized = SUMMARY, settings, of_task, rows, prompts, confidence
        parts.append(summarize_settings(*summarized, measures=names))
    return pl.concat(parts)
