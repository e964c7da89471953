"""Answers to the questions of a run, and its findings that surprise, from the table of claims."""

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

import polars as pl

from anchorflow.claims.summarize import load_claims
from anchorflow.claims.tabulate import difference_from
from anchorflow.claims.verdicts import (
    ANSWERS,
    CONTROL,
    FAILS,
    HOLDS,
    MISSING,
    NULL,
    SIGNS,
    UNCLEAR,
    answer_of,
)
from anchorflow.present.page import cell
from anchorflow.statistics.by_task import AVERAGE

Row = Mapping[str, Any]

LEGEND = (
    "Brackets hold {:.0%} intervals over seeds and test texts, and quartiles for time. ✓ above 0; "
    "✗ at or below 0; ? the interval contains 0. Beside control and untrained network, the sign is "
    "that of the difference from them. results/tables/claims.html has all claims, and verdicts by "
    "task."
)
_MOST_FINDINGS = 3


def questions(claims: pl.DataFrame, figures: Mapping[str, str]) -> tuple[list[str], pl.DataFrame]:
    """The count of each answer for each model, and one row per question and model.

    ``figures`` are paths from the page by analysis, in which ``{model}`` stands for a model.
    """
    asked = claims.filter(pl.col("task") == AVERAGE, pl.col("question").is_not_null())
    models = asked["model"].unique(maintain_order=True).to_list()
    order = {name: place for place, name in enumerate(asked["claim"].unique(maintain_order=True))}
    rows = sorted(asked.iter_rows(named=True), key=lambda row: order[row["claim"]])
    table = [_question(row, figures) for row in rows]
    for row, above in zip(table[:0:-1], table[-2::-1], strict=True):
        if row["question"] == above["question"]:
            row["question"] = ""
    frame = pl.DataFrame(table, schema=["question", "model", *_COLUMNS], orient="row")
    return [_count(asked, model) for model in models], (
        frame if len(models) > 1 else frame.drop("model")
    )


_COLUMNS = ("answer", "effect", "control", "untrained network", "figure")


def _count(asked: pl.DataFrame, model: str) -> str:
    verdicts = asked.filter(pl.col("model") == model)["verdict"].to_list()
    counts = ((answer, verdicts.count(verdict)) for verdict, answer in ANSWERS.items())
    counted = "; ".join(f"{answer}: {count}" for answer, count in counts if count)
    return f"{model}: {len(verdicts)} questions. {counted}."


def _question(row: Row, figures: Mapping[str, str]) -> dict[str, str]:
    name = row["figure"]
    path = figures.get(name, "").format(model=row["model"])
    link = f"[{name}]({path})" if path else "–"
    return {
        "question": row["question"],
        "model": row["model"],
        "answer": answer_of(row),
        "effect": f"{_sign(row['effect_mark'])}{_effect(row)}\n{row['compared']}",
        "control": _against(row, CONTROL),
        "untrained network": _against(row, NULL),
        "figure": link,
    }


def _sign(mark: str) -> str:
    return f"{SIGNS[mark]} " if mark in (HOLDS, FAILS, UNCLEAR) else ""


def _effect(row: Row) -> str:
    number = cell(row["effect"], row["low"], row["high"])
    return number if row["effect"] is None else f"{number} {row['unit']}"


def _against(row: Row, part: str) -> str:
    """The control's or the untrained network's number, and the effect's difference from it."""
    number, mark = row[f"{part}_effect"], row[f"{part}_mark"]
    subject = row[part] if part == CONTROL else ""
    if number is None or row["effect"] is None:
        lacks = "not measured" if mark == MISSING else "–"
        return f"{lacks}\n{subject}".rstrip()
    difference = f"difference {difference_from(row, part)}"
    return (
        f"{_sign(mark)}{cell(number, None, None)}\n{'; '.join(filter(None, (subject, difference)))}"
    )


def surprises(claims: pl.DataFrame, gains: pl.DataFrame) -> list[str]:
    """Two or three findings per model that one would not expect, of different kinds if possible.

    ``gains`` are from :func:`anchorflow.summary.facts.gains`.
    """
    findings = []
    for (model,), rows in claims.filter(pl.col("task") == AVERAGE).group_by(
        "model", maintain_order=True
    ):
        known = {row["claim"]: row for row in rows.iter_rows(named=True)}
        kinds = (
            list(_untrained_too(known)),
            list(_opposite(known)),
            list(_worse(gains.filter(pl.col("model") == model))),
            list(_only_the_weaker(known)),
        )
        of_model = [finding for rank in zip_longest(*kinds) for finding in rank if finding]
        named = f"{model}: " if claims["model"].n_unique() > 1 else ""
        findings += [f"{named}{finding}" for finding in of_model[:_MOST_FINDINGS]]
    return findings or ["Nothing surprising was found."]


def _untrained_too(claims: Mapping[str, Row]) -> Iterator[str]:
    """Effects above 0, but not above those of an untrained network."""
    for row in claims.values():
        if row["effect_mark"] == HOLDS and row["null_mark"] == FAILS:
            yield (
                f"Also true of an untrained network: {_sentence(row)} {_effect(row)}, untrained "
                f"{cell(row['null_effect'], None, None)}, difference {difference_from(row, NULL)}."
            )


def _opposite(claims: Mapping[str, Row]) -> Iterator[str]:
    for row in claims.values():
        if row["effect_mark"] == FAILS and row["high"] < 0:
            yield f"The opposite was found: {_sentence(row)} {row['compared']}, {_effect(row)}."


def _worse(gains: pl.DataFrame) -> Iterator[str]:
    for row in gains.filter(pl.col("high") < 0).iter_rows(named=True):
        number = cell(row["mean"], row["low"], row["high"])
        yield f"Accuracy is lower {row['way']} than with plain in-context learning: {number}."


def _only_the_weaker(claims: Mapping[str, Row]) -> Iterator[str]:
    for claim in load_claims():
        row, other = claims.get(claim.name), claims.get(claim.stricter_than)
        if row is None or other is None:
            continue
        if other["effect_mark"] == HOLDS and row["effect_mark"] in (UNCLEAR, FAILS):
            yield (
                f"Not clearly above 0: {_sentence(row)} {_effect(row)}. But: {_sentence(other)} "
                f"{_effect(other)}."
            )


def _sentence(row: Row) -> str:
    return f"“{row['statement']}.”"
