"""Gain of chosen over random demonstrations (Liu et al. 2022; explained by [K] §4.2)."""

import polars as pl

from anchorflow.analyses.retrieval import RETRIEVAL_SUMMARY
from anchorflow.statistics import change
from anchorflow.statistics.settings import CELL, Ways

RANDOM = "random"
CHOICES = (
    RANDOM,
    "nearest",
    "nearest_per_label",
    "representative",
    "outlying",
    "other_task",
    "random_labels",
)
GAINS = Ways(
    "choice",
    CHOICES,
    RANDOM,
    {
        "accuracy": change.ACCURACY,
        "similarity": pl.col("similarity"),
        "same_label": pl.col("same_label"),
        "majority": (pl.col("voted") == pl.col("label")).cast(pl.Float64),
        **{name: pl.col(name) for name in change.VOCABULARY},
    },
    change.accuracy_changes(change.GAINS, "plain", "plain_in_labels"),
    ("accuracy", "similarity", "same_label", "majority", *change.VOCABULARY),
)


def majority(labels: pl.Series) -> int:
    """The most frequent label of the demonstrations, the last of equally frequent ones.

    The last demonstration is the most similar one where demonstrations are ordered by similarity.
    """
    given: list[int] = labels.to_list()
    return max(reversed(given), key=given.count)


def summarize_retrieval(
    predictions: pl.DataFrame, prompts: pl.DataFrame, retrieved: pl.DataFrame, confidence: float
) -> pl.DataFrame:
    """Accuracy by choice of demonstrations, and its paired difference from random ones.

    All choices are run on the same examples, so differences are paired.

    ``retrieved`` are the prompts with chosen demonstrations; the fixed ones of ``prompts`` are the
    random choice. See :meth:`Ways.summarize`.
    """
    fixed = prompts.filter(pl.col("demonstrations") == "fixed")
    protocols = pl.concat([fixed.with_columns(demonstrations=pl.lit(RANDOM)), retrieved])
    votes = protocols.select(
        *CELL,
        choice="demonstrations",
        voted=pl.col("demonstration_labels").map_elements(majority, return_dtype=pl.Int32),
    )
    rows = predictions.join(votes, on=[*CELL, "choice"], how="left", maintain_order="left")
    return GAINS.summarize(rows, protocols, RETRIEVAL_SUMMARY, confidence)
