"""A task's own label words beside permuted, random, and meaningless ones, by hand."""

import polars as pl
import pytest

from anchorflow.schemas.predictions import PREDICTIONS
from constructed.claims import WITH_CONTROL, Row, answered, expect, of_claim, summarize

# Of each claim: what the own words are compared with, and what is in their place as the control.
CLAIMS = {
    "own_words_over_permuted": ("permuted", "symbols"),
    "own_words_over_random": ("random", "symbols"),
}
WORDS = {
    "words": [" no", " yes"],
    "permuted": [" yes", " no"],
    "symbols": [" A", " B"],
    "random": [],
}
# How many texts of four are right, where with the words compared with two are.
RIGHT = {"holds": 3, "even": 2, "fails": 1}
EFFECTS = {"holds": 0.25, "even": 0.0, "fails": -0.25}


def predicted(right: int, words: str = "") -> pl.DataFrame:
    rows = answered({"x": right}, "label", PREDICTIONS)
    labels = (pl.col("example") % 2).cast(rows.schema["label"])
    return rows.with_columns(labels.alias("label"), task=pl.col("task") + words)


def judged(claim: str, own: int, **others: int) -> Row:
    """What is said of a claim, where so many texts of four are right with own and other words."""
    worded = [predicted(own), *(predicted(right, f"+{name}") for name, right in others.items())]
    tables = {"predictions": predicted(own), "worded_predictions": pl.concat(worded)}
    words = {name: WORDS[name] for name in ("words", *others)}
    return of_claim(summarize(tables, words={"news": words}), claim)


@pytest.mark.parametrize(("claim", "compared"), CLAIMS.items())
@pytest.mark.parametrize(*WITH_CONTROL)
def test_own_words_help(
    own: str, control: str, verdict: str, reason: str | None, claim: str, compared: tuple[str, str]
) -> None:
    other, meaningless = compared
    found = judged(claim, RIGHT[own], **{other: 2, meaningless: RIGHT[control]})
    expect(found, EFFECTS[own], verdict, reason, EFFECTS[control])


def test_the_control_of_permuted_words_is_the_mean_of_all_words_without_meaning() -> None:
    found = judged("own_words_over_permuted", 4, permuted=1, symbols=3, random=2)
    assert found["effect"] == pytest.approx(3 / 4)
    assert found["control_effect"] == pytest.approx((2 / 4 + 1 / 4) / 2)


def test_what_a_task_has_no_words_for_is_said() -> None:
    found = judged("own_words_over_random", 3, permuted=2, symbols=2)
    assert found["verdict"] == "not tested"
    assert found["reason"] == "no label words were drawn at random (random_words)"
    alone = judged("own_words_over_random", 3, random=2)
    assert alone["effect"] == pytest.approx(0.25)
    assert "its control was not measured: no single letters or signs were" in alone["reason"]
    without = of_claim(summarize({"predictions": predicted(3)}), "own_words_over_permuted")
    assert without["reason"] == "the task's own label words were not permuted (label_words)"


def test_own_words_in_their_own_order_are_of_no_kind() -> None:
    tables = {"predictions": predicted(3), "worded_predictions": predicted(2, "+same")}
    words = {"news": {"words": [" no", " yes"], "same": ["no", "yes"]}}
    found = of_claim(summarize(tables, words=words), "own_words_over_permuted")
    assert found["verdict"] == "not tested"
