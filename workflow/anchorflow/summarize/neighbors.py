"""What chosen demonstrations gain over random ones (Liu et al. 2022; explained by [K] §4.2)."""

import polars as pl

from anchorflow.schemas.neighbors import NEIGHBORS
from anchorflow.summarize.by_task import SHARE
from anchorflow.summarize.paired import ACCURACY, CELL, Ways

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
        "accuracy": ACCURACY,
        "similarity": pl.col("similarity"),
        "same_label": pl.col("same_label"),
        "majority": (pl.col("voted") == pl.col("label")).cast(pl.Float64),
    },
    {"accuracy_gain": ACCURACY - (pl.col("plain") == pl.col("label")).cast(pl.Float64)},
    ("accuracy", "similarity", "same_label", "majority"),
    dict.fromkeys(("accuracy", "same_label", "majority"), SHARE),
)


def majority(labels: pl.Series) -> int:
    """The most frequent of the demonstrations' labels; of several, the one that occurs last."""
    given: list[int] = labels.to_list()
    return max(reversed(given), key=given.count)


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
        Columns of the table ``neighbors``; see :meth:`Ways.summarize`.

    Raises
    ------
    InputError
        If there are no predictions.
    """
    fixed = prompts.filter(pl.col("demonstrations") == "fixed")
    protocols = pl.concat([fixed.with_columns(demonstrations=pl.lit(RANDOM)), retrieved])
    votes = protocols.select(
        *CELL,
        choice="demonstrations",
        voted=pl.col("demonstration_labels").map_elements(majority, return_dtype=pl.Int32),
    )
    rows = predictions.join(votes, on=[*CELL, "choice"], how="left", maintain_order="left")
    return GAINS.summarize(rows, protocols, NEIGHBORS, confidence)
