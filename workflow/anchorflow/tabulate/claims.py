"""Verdicts on the papers' claims for all models."""

import polars as pl

from anchorflow.summarize.by_task import AVERAGE
from anchorflow.summarize.verdicts import NOT_TESTED
from anchorflow.tabulate.page import Page, pivoted

_NOTE = (
    "Each claim is a difference that is above 0 where the claim holds. It is averaged over seeds, "
    "then over tasks, with a {:.0%} bootstrap interval over seeds and examples; what is compared "
    "is compared on the same examples. supported: the whole interval lies above 0; not supported: "
    "the whole interval lies at or below 0, as [-0.1, 0] or [0, 0]; inconclusive: neither, as "
    "[0, 0.1], or the difference is undefined, or is so in more replicates than the interval "
    "leaves out; not tested: the run lacks what the claim is about. "
    "Time has a rule of its own, as its quartiles are not a bootstrap: of a task, supported if the "
    "anchors' upper quartile is below the full prompts' lower one, not supported if the anchors' "
    "lower one is not below the full prompts' upper one; over tasks, supported or not if it is so "
    "in every task. Early and late are the first and the last third of the layers; of isolation, "
    "N is the largest number of layers isolated. In the last layer S_wp is 0 by construction. "
    "Intervals are those of each claim alone; with this many claims, some verdicts "
    "are due to chance. results/tables/claims.csv has every task, rule and reason."
)


def tabulate_claims(claims: pl.DataFrame, confidence: float) -> Page:
    """One row per claim, averaged over tasks; one column per model with effect and verdict."""
    averaged = claims.filter(pl.col("task") == AVERAGE)
    verdicts = averaged.rename({"effect": "mean"}).with_columns(
        note=pl.when(pl.col("verdict") == NOT_TESTED)
        .then(pl.format(" not tested: {}", "reason"))
        .otherwise(pl.format(" {}", "verdict") + pl.format(" ({})", "reason").fill_null(""))
    )
    table = pivoted(verdicts, ("statement", "source", "compared", "unit"), "model")
    by_task = {"Verdicts by task": _verdicts_by_task(claims)}
    return Page("Which claims hold, over tasks", _NOTE.format(confidence), table, by_task)


def _verdicts_by_task(claims: pl.DataFrame) -> pl.DataFrame:
    """One row per model and claim, one column per task with the verdict."""
    return claims.pivot(
        "task", index=["model", "claim"], values="verdict", maintain_order=True
    ).fill_null("–")
