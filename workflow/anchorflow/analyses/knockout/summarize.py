"""Changes of the loss and of predictions when edges of attention are cut."""

import polars as pl

from anchorflow.analyses.knockout import KNOCKOUT_SUMMARY as SUMMARY
from anchorflow.statistics import change
from anchorflow.statistics.by_task import require_examples
from anchorflow.statistics.change import EXAMPLE_KEYS, with_loyalty
from anchorflow.statistics.estimates import Estimate
from anchorflow.statistics.settings import estimate_settings, settings_of, summarize_settings


def knockout_measures(knockout: pl.DataFrame) -> pl.DataFrame:
    """The measures of every prediction with a cut, relative to the unmodified run.

    ``loss_change`` is the change of the true label's cross-entropy, in nats, ``log_odds_change``
    that of its log odds among the label words, and ``probability_change`` that of its probability.
    The others are those of :func:`with_loyalty`. From the rows of one model and task.
    """
    untouched = pl.col("edges") == "none"
    plain = knockout.filter(untouched)
    pairs = with_loyalty(knockout.filter(~untouched), plain)
    before = plain.select(*EXAMPLE_KEYS, pl.col("loss").alias("loss_before"))
    return pairs.join(before, on=EXAMPLE_KEYS).select(
        *EXAMPLE_KEYS,
        "draw",
        *SUMMARY.settings,
        (pl.col("loss") - pl.col("loss_before")).alias("loss_change"),
        (_log_odds("loss") - _log_odds("loss_before")).alias("log_odds_change"),
        ((-pl.col("loss")).exp() - (-pl.col("loss_before")).exp()).alias("probability_change"),
        "label_loyalty",
        "word_loyalty",
        *change.CHANGES,
        *change.VOCABULARY,
    )


def _log_odds(loss: str) -> pl.Expr:
    """Of the probability whose negative logarithm is the loss; near 1, at most 27.6."""
    kept = pl.col(loss).clip(1e-12)
    return -kept - (1 - (-kept).exp()).log()


def summarize_knockout(
    knockout: pl.DataFrame, prompts: pl.DataFrame, confidence: float
) -> pl.DataFrame:
    """Effects of each cut; see :func:`summarize_settings`."""
    require_examples(knockout)
    cut = knockout.filter(pl.col("edges") != "none")
    settings = settings_of(cut, SUMMARY)

    def of_task(rows: pl.DataFrame) -> Estimate:
        return estimate_settings(knockout_measures(rows), settings, SUMMARY.measured)

    return summarize_settings(
        SUMMARY, settings, of_task, knockout, prompts, confidence, counted=cut
    )
