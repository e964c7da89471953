"""How far transplants move answers to the donor's, and how often predictions follow."""

import numpy as np
import polars as pl

from anchorflow.analyses.transplant import TRANSPLANT_SUMMARY as SUMMARY
from anchorflow.statistics import change
from anchorflow.statistics.by_task import (
    estimate_over_seeds,
    ratio_of_seed,
    require_examples,
    undefined,
)
from anchorflow.statistics.change import EXAMPLE_KEYS
from anchorflow.statistics.estimates import Estimate
from anchorflow.statistics.settings import settings_of, summarize_settings

_MEANS = (*change.CHANGES, *change.VOCABULARY)


def transplant_measures(transplant: pl.DataFrame) -> pl.DataFrame:
    """For every answer after a transplant, the parts and wholes of all measures.

    Let p, d, and t be the label probabilities of the prompt, of the donor, and after the
    transplant. ``moved`` is (t - p)·(d - p), out of the whole |d - p|². ``follows`` is 1 where the
    prediction becomes the donor's, out of a whole of 1 where the donor's differs from the prompt's.
    The others, with a whole of 1, are ``label_mass``, ``in_labels``, and the change of accuracy
    with its parts, of :func:`accuracy_changes`.
    """
    answer = ["prediction", "probabilities"]
    untouched = transplant.filter(pl.col("what") == "none").select(
        *EXAMPLE_KEYS, *answer, "in_labels"
    )
    donors = transplant.filter(pl.col("what") == "prompt")
    donors = donors.select(*EXAMPLE_KEYS, "donor", "draw", *answer)
    rows = (
        transplant.filter(~pl.col("what").is_in(["none", "prompt"]))
        .join(untouched, on=EXAMPLE_KEYS, suffix="_own")
        .join(donors, on=[*EXAMPLE_KEYS, "donor", "draw"], suffix="_donor")
    )
    labels = len(transplant["probabilities"][0])
    after, before, wanted = (
        np.array(rows[f"probabilities{of}"].to_list(), np.float64).reshape(-1, labels)
        for of in ("", "_own", "_donor")
    )
    way = wanted - before
    differs = pl.col("prediction_own") != pl.col("prediction_donor")
    return rows.select(
        *EXAMPLE_KEYS,
        "draw",
        "tokens",
        *SUMMARY.settings,
        pl.Series("moved", ((after - before) * way).sum(1)),
        pl.Series("moved_whole", (way**2).sum(1)),
        (differs & (pl.col("prediction") == pl.col("prediction_donor")))
        .cast(pl.Float64)
        .alias("follows"),
        differs.cast(pl.Float64).alias("follows_whole"),
        *change.VOCABULARY,
        **change.accuracy_changes(change.CHANGES, "prediction_own", "in_labels_own"),
        **{f"{measure}_whole": pl.lit(1.0) for measure in _MEANS},
    )


def summarize_transplant(
    transplant: pl.DataFrame, prompts: pl.DataFrame, confidence: float
) -> pl.DataFrame:
    """How far each transplant moves the answer; see :func:`summarize_settings`."""
    require_examples(transplant)
    taken = transplant.filter(~pl.col("what").is_in(["none", "prompt"]))
    settings = settings_of(taken, SUMMARY)
    every = list(settings.iter_rows(named=True))

    def of_task(rows: pl.DataFrame) -> Estimate:
        found = transplant_measures(rows)
        if found.is_empty():  # no two label words of the same length
            return undefined(len(every) * len(SUMMARY.measured))
        return estimate_over_seeds(found, lambda seed: ratio_of_seed(seed, every, SUMMARY.measured))

    return summarize_settings(
        SUMMARY, settings, of_task, transplant, prompts, confidence, counted=taken
    )
