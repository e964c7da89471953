"""Changes of the loss and of predictions when edges of attention are cut."""

import polars as pl

from anchorflow.analyses.knockout.schema import KNOCKOUT_SUMMARY
from anchorflow.statistics import accuracy_change as change
from anchorflow.statistics.by_task import (
    DIFFERENCE,
    SHARE,
    over_tasks,
    require_examples,
    summary_rows,
    summary_table,
)
from anchorflow.statistics.estimates import Estimate
from anchorflow.statistics.loyalty import estimate_settings, with_loyalty

MEASURES = (
    "loss_change",
    "log_odds_change",
    "probability_change",
    "label_loyalty",
    "word_loyalty",
    *change.CHANGES,
    *change.VOCABULARY,
)
BOUNDS = {
    "probability_change": DIFFERENCE,
    **dict.fromkeys(("label_loyalty", "word_loyalty"), SHARE),
    **change.BOUNDS,
}
SETTING = ["edges", "control", "band", "layer", "layers"]
_EXAMPLE = ["seed", "example"]


def knockout_measures(knockout: pl.DataFrame) -> pl.DataFrame:
    """The measures of every prediction with a cut, relative to the unmodified run.

    ``loss_change`` is the change of the true label's cross-entropy, in nats, ``log_odds_change``
    that of its log odds among the label words, and ``probability_change`` that of its probability.
    The others are those of :func:`with_loyalty`.

    Parameters
    ----------
    knockout : DataFrame
        Table ``knockout`` of one model and task.

    Returns
    -------
    DataFrame
        One row per prediction with a cut: seed, example, draw, the setting, and the measures.
    """
    untouched = pl.col("edges") == "none"
    plain = knockout.filter(untouched)
    pairs = with_loyalty(knockout.filter(~untouched), plain)
    before = plain.select(*_EXAMPLE, pl.col("loss").alias("loss_before"))
    return pairs.join(before, on=_EXAMPLE).select(
        *_EXAMPLE,
        "draw",
        *SETTING,
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
    """Effects of each cut, per task and averaged over tasks, with intervals.

    Every seed draws its own random edges, so intervals over seeds cover the draws as well.

    Parameters
    ----------
    knockout, prompts : DataFrame
        Tables ``knockout`` and ``prompts`` of one model, all tasks and seeds.

    Returns
    -------
    DataFrame
        Columns of the table ``knockout_summary``.

    Raises
    ------
    InputError
        If there are no predictions.
    """
    require_examples(knockout)
    cut = knockout.filter(pl.col("edges") != "none")
    settings = cut.select(SETTING).unique(maintain_order=True).sort(SETTING)
    keys = settings.join(pl.DataFrame({"measure": MEASURES}), how="cross")

    def of_task(rows: pl.DataFrame) -> Estimate:
        return estimate_settings(knockout_measures(rows), settings, MEASURES)

    tasks = prompts["task"].unique(maintain_order=True).to_list()
    estimates = over_tasks(knockout, tasks, of_task, len(keys))
    rows = summary_rows(estimates, keys, cut, confidence, BOUNDS)
    return summary_table(rows, knockout, KNOCKOUT_SUMMARY)
