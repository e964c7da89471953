"""Verdicts on the papers' claims for all models."""

import polars as pl

from anchorflow.summarize.by_task import AVERAGE
from anchorflow.summarize.verdicts import NOT_TESTED
from anchorflow.tabulate.page import Page, cell

_NOTE = (
    "Each claim is a difference that is above 0 where the claim holds. It is averaged over seeds, "
    "then over tasks, with a {:.0%} interval over seeds and test texts. over control: the effect "
    "minus the same difference with something else in place of what the claim is about; over "
    "null: minus that of the same network without training; both paired by text. Where the effect "
    "is itself the difference from the control, there is no number. supported: the effect and its "
    "differences from control and null are above 0, after Holm's correction within the family; "
    "not supported: one of their intervals lies at or below 0, as [-0.1, 0]; inconclusive: "
    "neither; not tested: the run lacks what the claim is about, or has one seed. form: paper, as "
    "the paper states it; discriminating, with what tells it from what any network does. Tasks "
    "are fixed effects: verdicts are about these tasks. Time has a rule of its own: supported if "
    "the anchors' upper quartile is below the lower one of what they are compared with in every "
    "task, not supported if their lower one is not below its upper one. Early and late are the "
    "first and the last third of the layers. In the last layer S_wp is 0 by construction. A "
    "family has the claims of one section of a paper. results/tables/claims.csv has every task, "
    "rule, control, null, and p value."
)
_SHOWN = ("claim", "form", "effect", "over control", "over null", "verdict", "reason")


def tabulate_claims(claims: pl.DataFrame, confidence: float) -> Page:
    """One row per claim and model, averaged over tasks, and what is compared; counts by family."""
    averaged = claims.filter(pl.col("task") == AVERAGE)
    several = claims["model"].n_unique() > 1
    columns = [*(["model"] if several else []), *_SHOWN]
    rows = [_row(row) for row in averaged.iter_rows(named=True)]
    told = averaged.unique("claim", maintain_order=True).select(
        "claim", "statement", "source", "compared", "unit", "control", "null"
    )
    further = {
        "Verdicts by family": verdicts_by_family(claims),
        "What is compared": told,
        "Verdicts by task": _verdicts_by_task(claims),
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
    """A value with an interval, or what is left of the effect with the interval of that."""
    number, effect = row[value], row["effect"]
    if not isinstance(number, float) or not isinstance(effect, float):
        return "–"
    if of_difference:
        number = effect - number
    ends = [each if isinstance(each, float) else None for each in (row[low], row[high])]
    return cell(number, ends[0], ends[1])


def _verdicts_by_task(claims: pl.DataFrame) -> pl.DataFrame:
    """One row per model and claim, one column per task with the verdict."""
    return claims.pivot(
        "task", index=["model", "claim"], values="verdict", maintain_order=True
    ).fill_null("–")
