"""Verdicts on the papers' claims for all models."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from anchorflow.claims.verdicts import (
    CONTROL,
    NULL,
    SIGNS_EXPLAINED,
    VERDICTS,
    because,
    measured_on,
    signs_of,
)
from anchorflow.present.page import Page, cell
from anchorflow.statistics.by_task import AVERAGE

_NOTE = (
    "Each claim is a difference that is above 0 where the claim holds, averaged over seeds, then "
    "over tasks, with a {:.0%} interval over seeds and test texts. over control: the effect minus "
    "the same difference with the control in place of the claim's subject; over null: the effect "
    "minus that for the same network without training. Where the effect is itself the difference "
    "from the control, there is no number. marks, of effect, control and null in this order: "
    + SIGNS_EXPLAINED
    + ". supported: all that is needed is above 0. untrained too: only the difference from the "
    "untrained network is not. mixed: one task is above 0 and another is not. not supported: "
    "effect or control fails, as the column says. undecided: an interval contains 0. not compared: "
    "a control or null that the claim needs is missing. not measured: the run lacks it, or has one "
    "seed. measured on: distinct test texts, and seeds. Verdicts of all claims are corrected "
    "together, so that few of those that are decided, "
    "for or against, are expected to be false (Benjamini and Hochberg 1995); others are undecided. "
    "Tasks are fixed effects: verdicts hold for these tasks. Claims about time are supported "
    "if, in every task, the anchors' upper quartile is below the lower quartile of the "
    "alternative. Early and late are the first and the last third of the layers; in the last "
    "layer, S_wp is 0 by construction. results/tables/claims.csv has every task, rule, control, "
    "null, and p value."
)
_COLUMNS = (
    "claim",
    "effect",
    "over control",
    "over null",
    "marks",
    "verdict",
    "measured on",
    "because",
)


def tabulate_claims(summary: pl.DataFrame, confidence: float) -> Page:
    """The claims that answer a question, averaged over tasks; then all others."""
    averaged = summary.filter(pl.col("task") == AVERAGE)
    several = summary["model"].n_unique() > 1
    columns = [*(["model"] if several else []), *_COLUMNS]
    asked = pl.col("question").is_not_null()
    comparisons = averaged.unique("claim", maintain_order=True).select(
        "claim", "statement", "source", "compared", "unit", "control", "null"
    )
    first, others = (_rows(averaged.filter(which), columns) for which in (asked, ~asked))
    further = {
        "Further claims": others,
        "Verdicts by family": verdicts_by_family(summary),
        "What is compared": comparisons,
        "Verdicts by task": _verdicts_by_task(summary),
    }
    return Page("Which claims hold, over tasks", _NOTE.format(confidence), first, further)


def _rows(averaged: pl.DataFrame, columns: list[str]) -> pl.DataFrame:
    """Supported claims first."""
    order = pl.col("verdict").replace_strict({name: n for n, name in enumerate(VERDICTS)})
    ordered = averaged.sort(order, maintain_order=True)
    rows = [_row(row) for row in ordered.iter_rows(named=True)]
    return pl.DataFrame(rows, schema=["model", *_COLUMNS], orient="row").select(columns)


def verdicts_by_family(claims: pl.DataFrame) -> pl.DataFrame:
    """One row per model, family, and form, with the number of claims of each verdict over tasks."""
    averaged = claims.filter(pl.col("task") == AVERAGE)
    counts = averaged.group_by("model", "family", "form", "verdict", maintain_order=True).len()
    return counts.pivot(
        "verdict", index=["model", "family", "form"], values="len", maintain_order=True
    ).fill_null(0)


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "model": row["model"],
        "claim": row["claim"],
        "effect": cell(row["effect"], row["low"], row["high"]),
        "over control": difference_from(row, CONTROL),
        "over null": difference_from(row, NULL),
        "marks": " ".join(signs_of(row)),
        "verdict": row["verdict"],
        "measured on": measured_on(row),
        "because": because(row),
    }


def difference_from(row: Mapping[str, Any], part: str) -> str:
    """What is left of an effect over control or null, with its interval."""
    return cell(*(row[f"over_{part}{end}"] for end in ("", "_low", "_high")))


def _verdicts_by_task(claims: pl.DataFrame) -> pl.DataFrame:
    """One row per model and claim, one column per task with the verdict."""
    return claims.pivot(
        "task", index=["model", "claim"], values="verdict", maintain_order=True
    ).fill_null("–")
