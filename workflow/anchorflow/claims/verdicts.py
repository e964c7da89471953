"""Verdicts on claims, marks of what they compare, and both in words.

``claims/decision.py`` has the rules. Rows are those of the table ``claims``.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

SUPPORTED, UNTRAINED_TOO, MIXED = "supported", "untrained too", "mixed"
NOT_SUPPORTED, UNDECIDED = "not supported", "undecided"
NOT_COMPARED, NOT_MEASURED = "not compared", "not measured"
# Each verdict as the answer to a question, in the order in which rows are sorted.
ANSWERS = {
    SUPPORTED: "Yes",
    UNTRAINED_TOO: "Yes, without training too",
    MIXED: "Tasks disagree",
    NOT_SUPPORTED: "No",
    UNDECIDED: "Undecided",
    NOT_COMPARED: "Not compared",
    NOT_MEASURED: "Not measured",
}
VERDICTS = tuple(ANSWERS)
SIGN_OF = {
    SUPPORTED: "✓",
    UNTRAINED_TOO: "○",
    MIXED: "±",
    NOT_SUPPORTED: "✗",
    UNDECIDED: "?",
    NOT_COMPARED: "…",
}

# Of an effect, and of its differences from control and null.
HOLDS, FAILS, UNCLEAR, MISSING, NONE = "holds", "fails", "unclear", "missing", "none"
SIGNS = {HOLDS: "✓", FAILS: "✗", UNCLEAR: "?", MISSING: "…", NONE: "–"}
SIGNS_EXPLAINED = "✓ above 0, ✗ at or below 0, ? interval contains 0, … not measured, – none needed"

EFFECT, CONTROL, NULL = "effect", "control", "null"


class Words(NamedTuple):
    """What is said of an effect, or of its difference from control or null, by its interval."""

    above: str
    not_above: str
    not_clearly_above: str
    also_true: str  # not above, while the effect is above 0
    no: str  # the answer if it is not above
    unclear: str  # the answer if it is not clearly above
    missing: str = ""  # the answer if it was not measured


WORDS = {
    EFFECT: Words(
        "the effect is above 0",
        "the effect is not above 0",
        "the effect is not clearly above 0",
        "the effect is not above 0",
        "not above 0",
        "the interval contains 0",
    ),
    CONTROL: Words(
        "it is above its control",
        "not above its control",
        "not clearly above its control",
        "also true of its control",
        "not more than the control",
        "not clearly more than the control",
        "with the control",
    ),
    NULL: Words(
        "it is above an untrained network",
        "not above an untrained network",
        "not clearly above an untrained network",
        "also true of an untrained network",
        "not more than an untrained network",
        "not clearly more than an untrained network",
        "with an untrained network",
    ),
}
# How reasons begin that leave a verdict open whatever the intervals are.
NOT_CORRECTED = "not after the correction"
TOO_FEW = "too few texts"


def marks_of(row: Mapping[str, Any]) -> dict[str, str]:
    """The marks of effect, control, and null."""
    return {part: row[f"{part}_mark"] for part in WORDS}


def signs_of(row: Mapping[str, Any]) -> list[str]:
    """The signs of effect, control, and null."""
    return [SIGNS[mark] for mark in marks_of(row).values()]


def because(row: Mapping[str, Any]) -> str:
    """What fails, what would measure the rest, and the reason."""
    parts = (row["fails"], row["remedy"] and f"set {row['remedy']}", row["reason"])
    return "; ".join(part for part in parts if part)


def measured_on(row: Mapping[str, Any]) -> str:
    """Distinct texts and seeds of a row; batches, for time."""
    if row["texts"] is None:
        return f"{row['examples']} batches" if row["examples"] else ""
    return f"{row['texts']} texts, {row['seeds']} seeds" if row["texts"] else ""


def answer_of(row: Mapping[str, Any]) -> str:
    """The answer with a short reason, and on a second line what would decide it."""
    verdict, first = row["verdict"], str(row["reason"]).partition(";")[0]
    marked: dict[str, list[Words]] = {}
    for part, mark in marks_of(row).items():
        marked.setdefault(mark, []).append(WORDS[part])
    remedy = f"\n`{row['remedy']}`" if row["remedy"] else ""
    if verdict == MIXED:
        return first.capitalize()
    if verdict == NOT_SUPPORTED:
        return f"No: {', '.join(words.no for words in marked.get(FAILS, ()))}"
    if verdict == UNDECIDED:
        unclear = ", ".join(words.unclear for words in marked.get(UNCLEAR, ()))
        open_anyway = first.startswith((NOT_CORRECTED, TOO_FEW))
        return f"Undecided: {first if open_anyway else unclear or row['reason']}"
    if verdict == NOT_COMPARED:
        missing = " or ".join(words.missing for words in marked.get(MISSING, ()) if words.missing)
        return f"Not compared {missing}{remedy}"
    if verdict == NOT_MEASURED:
        one_seed = row["effect"] is not None
        return f"{'Not decided by one seed' if one_seed else ANSWERS[verdict]}{remedy}"
    return ANSWERS[verdict]
