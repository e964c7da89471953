"""What vectors recover of what demonstrations add, and how similar local vectors are."""

import numpy as np
import polars as pl

from anchorflow.analyses.vectors import ALL, COSINES, NO_LAYER
from anchorflow.analyses.vectors import VECTORS_SUMMARY as SUMMARY
from anchorflow.arrays import Array
from anchorflow.statistics import by_task, change
from anchorflow.statistics.estimates import Estimate
from anchorflow.statistics.settings import (
    estimate_settings,
    settings_of,
    summarize_settings,
    unclear_wholes,
)

_GRADED = {"recovery": "accuracy", "recovered_probability": "probability"}
MEASURES = tuple(name for name in SUMMARY.measured if name not in COSINES)
_KEYS = ["seed", "example"]


def with_chosen(answers: pl.DataFrame) -> pl.DataFrame:
    """The answers, and again with the layer -1 those of vectors whose layer is chosen.

    Of each task, texts count that have all kinds of vectors, so that all rows are of the same ones.
    """
    kinds = pl.col("vector").filter(source="own").n_unique()
    found = answers.filter(kinds.over("task", *_KEYS) == kinds.over("task"))
    return pl.concat([found, found.filter("chosen").with_columns(layer=pl.lit(NO_LAYER, pl.Int32))])


def vector_measures(answers: pl.DataFrame) -> pl.DataFrame:
    """Accuracy, the true label's probability, and parts of what is recovered, for every answer.

    Of a vector whose layer is chosen, rows are repeated with the layer -1. ``recovery`` is the
    change against the prompt into which the vector is put, and ``recovery_whole`` that with all
    demonstrations. Local vectors are put into the prompt with random texts, which has label words.
    """
    rows = with_chosen(answers).with_columns(
        accuracy=change.ACCURACY,
        probability=pl.col("probabilities").list.get(pl.col("label")).cast(pl.Float64),
    )
    local = pl.col("vector") == "local"
    rows = rows.with_columns(local=local)
    without = rows.filter(source="none").filter(
        pl.when(local).then(pl.col("layer") == NO_LAYER).otherwise(pl.col("number") == 0)
    )
    whole = rows.filter(vector="none", number=ALL)
    for of, keys, suffix in ((without, [*_KEYS, "local"], "_without"), (whole, _KEYS, "_with")):
        recipients = of.select(*keys, *_GRADED.values())
        rows = rows.join(recipients, keys, "left", suffix=suffix, maintain_order="left")
    return rows.select(
        *_KEYS,
        *SUMMARY.settings,
        *_GRADED.values(),
        **{name: pl.col(of) - pl.col(f"{of}_without") for name, of in _GRADED.items()},
        **{
            f"{name}_whole": pl.col(f"{of}_with") - pl.col(f"{of}_without")
            for name, of in _GRADED.items()
        },
    )


def undefined_recovery(measured: pl.DataFrame, confidence: float, local: bool) -> list[str]:
    """See :func:`unclear_wholes`. The whole of ``local`` vectors starts at random texts."""
    of_recipient = {"vector": "local", "layer": NO_LAYER} if local else {"number": ALL}
    whole = measured.filter(source="none", **of_recipient)
    if not local:
        whole = whole.filter(vector="none")
    return [*_GRADED] if whole.is_empty() else unclear_wholes(whole, [*_GRADED], confidence)


def summarize_vectors(
    answers: pl.DataFrame, similarity: pl.DataFrame, prompts: pl.DataFrame, confidence: float
) -> pl.DataFrame:
    """Answers under every vector, by layer; see :func:`summarize_settings`."""
    by_task.require_examples(answers)
    counted = with_chosen(answers)
    settings = settings_of(counted, SUMMARY)

    # Of these, recovery is 0 and 1 whatever is measured.
    of_itself = [("none", "none", number, NO_LAYER) for number in (0, ALL)]
    of_itself.append(("local", "none", ALL, NO_LAYER))

    def of_task(rows: pl.DataFrame) -> Estimate:
        measured = vector_measures(rows)
        lacking = {
            is_local: undefined_recovery(measured, confidence, is_local)
            for is_local in (False, True)
        }
        known = np.array(
            [
                name not in lacking[setting[0] == "local"]
                and not (name in _GRADED and setting in of_itself)
                for setting in settings.iter_rows()
                for name in MEASURES
            ]
        )

        def where_known(values: Array) -> Array:
            kept: Array = np.where(known, values, np.nan)
            return kept

        return estimate_settings(measured, settings, MEASURES).map(where_known)

    parts = [
        summarize_settings(
            SUMMARY,
            settings,
            of_task,
            answers,
            prompts,
            confidence,
            counted=counted,
            measures=MEASURES,
        )
    ]
    if not similarity.is_empty():
        # Demonstrations of different seeds are different ones.
        rank, number = pl.col("seed").rank("dense").cast(pl.Int32), pl.col("demonstration")
        similarity = similarity.with_columns(example=number + (rank - 1) * (number.max() + 1))
        own = pl.col(*COSINES).cast(pl.Float64)
        control = [pl.col(f"{name}_control").cast(pl.Float64).alias(name) for name in COSINES]
        keys = [*_KEYS, "layer"]
        both = [
            similarity.select("model", "task", *keys, *of).with_columns(source=pl.lit(source))
            for source, of in (("own", [own]), ("random", control))
        ]
        rows = pl.concat(both).with_columns(vector=pl.lit("local"), number=pl.lit(ALL, pl.Int32))

        def of_cosines(some: pl.DataFrame) -> Estimate:
            return estimate_settings(some, of_layers, COSINES)

        of_layers = settings_of(rows, SUMMARY)
        parts.append(
            summarize_settings(
                SUMMARY, of_layers, of_cosines, rows, prompts, confidence, measures=COSINES
            )
        )
    return pl.concat(parts)
