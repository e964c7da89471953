"""Loss of accuracy for perturbed test texts ([K] Table 1)."""

import polars as pl

from anchorflow.analyses.perturbations import PERTURBATIONS_SUMMARY
from anchorflow.statistics import change
from anchorflow.statistics.settings import CELL, Ways

UNTOUCHED = "untouched"
# Accuracy for test texts, original and rewritten by GPT-3.5; Han et al. 2025, Table 1.
PUBLISHED = {"untouched": 0.805, "typos": 0.534, "rare_words": 0.677, "complex": 0.788}
PERTURBATIONS = (UNTOUCHED, "typos", "word_order", "case", "rare_words")
CHANGES = Ways(
    "perturbation",
    PERTURBATIONS,
    UNTOUCHED,
    {
        "accuracy": change.ACCURACY,
        **{name: pl.col(name) for name in ("changed_words", *change.VOCABULARY)},
    },
    {
        "agreement": (pl.col("prediction") == pl.col("plain")).cast(pl.Float64),
        **change.accuracy_changes(change.CHANGES, "plain", "plain_in_labels"),
    },
    ("accuracy", *change.VOCABULARY),
)


def summarize_perturbations(
    predictions: pl.DataFrame,
    perturbed: pl.DataFrame,
    prompts: pl.DataFrame,
    texts: pl.DataFrame,
    confidence: float,
) -> pl.DataFrame:
    """Accuracy by perturbation, and its paired difference from untouched texts.

    ``prompts`` with fixed demonstrations have the untouched texts, and ``perturbed`` are the
    prompts of perturbed texts. See :meth:`Ways.summarize`.
    """
    fixed = prompts.filter(pl.col("demonstrations") == "fixed")
    protocols = pl.concat([fixed.with_columns(demonstrations=pl.lit(UNTOUCHED)), perturbed])
    share = pl.col("changed") / pl.col("words")
    changed = texts.select(*CELL, "perturbation", changed_words=share)
    key = [*CELL, "perturbation"]
    rows = predictions.join(changed, on=key, how="left", maintain_order="left")
    return CHANGES.summarize(rows, protocols, PERTURBATIONS_SUMMARY, confidence)
