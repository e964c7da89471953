"""Verdicts on the papers' claims for all models."""

import polars as pl

from anchorflow.claims.verdicts import NOT_TESTED
from anchorflow.present.page import Page, cell
from anchorflow.statistics.by_task import AVERAGE

_NOTE = (
    "Each claim is a difference that is above 0 where the claim holds. It is averaged over seeds, "
    "then over tasks, with a {:.0%} interval over seeds and test texts. over control: the effect "
    "minus the same difference with the control in place of the claim's subject; over null: the "
    "effect minus that of the same network without training; both paired by text. Where the "
    "effect is itself the difference from the control, there is no number. supported: the effect "
    "and its differences from control and null are above 0, after Holm's correction within the "
    "family; not supported: one of their intervals lies at or below 0, as [-0.1, 0]; "
    "inconclusive: neither; not tested: the run lacks the measurements of the claim, or has one "
    "seed. form: paper, as the paper states it; discriminating, stricter, so that not every "
    "network satisfies it. Tasks are fixed effects: verdicts hold for these tasks. Claims about "
    "time have another rule: supported if, in every task, the anchors' upper quartile is below "
    "the lower quartile of the alternative; not supported if, in every task, their lower quartile "
    "is not below its upper one. Early and late are the first and the last third of the layers. In "
    "the last layer, S_wp is 0 by construction. A family has the claims of one section of a "
    "paper. results/tables/claims.csv has every task, rule, control, null, and p value."
)
_COLUMNS = ("claim", "form", "effect", "over control", "over null", "verdict", "reason")


def tabulate_claims(summary: pl.DataFrame, confidence: float) -> Page:
    """One row per claim and model, averaged over tasks; then counts by family and comparisons."""
    averaged = summary.filter(pl.col("task") == AVERAGE)
    several = summary["model"].n_unique() > 1
    columns = [*(["model"] if several else []), *_COLUMNS]
    rows = [_row(row) for row in averaged.iter_rows(named=True)]
    comparisons = averaged.unique("claim", maintain_order=True).select(
        "claim", "statement", "source", "compared", "unit", "control", "null"
    )
    further = {
        "Verdicts by family": verdicts_by_family(summary),
        "What is compared": comparisons,
        "Verdicts by task": _verdicts_by_task(summary),
    }
    table = pl.DataFrame(rows).select(columns)
    return Page("Which claims hold, over tasks", _NOTE.format(confidence), table, further)


def verdicts_by_family(claims: pl.DataFrame) -> pl.DataFrame:
    """One row per model, family, and form, with the number of claims of each verdict over tasks."""
    averaged = claims.filter(pl.col("task") == AVERAGE)
    counts = averaged.group_by("model", "family", "form", "verdict", maintain_order=True).len()
    return counts.pivot(
        "verdict", index=["model", "family", "form"], values="len", maintain_order=True
    ).fill_null(0)


def _row(row: dict[str, object]) -> dict[str, object]:
    tested = row["verdict"] != NOT_TESTED or row["effect"] is not None
    return {
        "model": row["model"],
        "claim": row["claim"],
        "form": row["form"],
        "effect": _with_ends(row, "effect", "low", "high") if tested else "–",
        "over control": _with_ends(
            row, "control_effect", "over_control_low", "over_control_high", of_difference=True
        ),
        "over null": _with_ends(
            row, "null_effect", "over_null_low", "over_null_high", of_difference=True
        ),
        "verdict": row["verdict"],
        "reason": row["reason"] or "",
    }


def _with_ends(
    row: dict[str, object], value: str, low: str, high: str, of_difference: bool = False
) -> str:
    """A value with its interval, or the effect minus the value with the interval of that."""
    number, effect = row[value], row["effect"]
    if not isinstance(number, float) or not isinstance(effect, float):
        return "–"
    if of_difference:
        number = effect - number
    ends = [end if isinstance(end, float) else None for end in (row[low], row[high])]
    return cell(number, ends[0], ends[1])


def _verdicts_by_task(claims: pl.DataFrame) -> pl.DataFrame:
    """One row per model and claim, one column per task with the verdict."""
    return claims.pivot(
        "task", index=["model", "claim"], values="verdict", maintain_order=True
    ).fill_null("–")
