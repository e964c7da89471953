"""What anchors retain beside every other method: differences on every text worked out by hand."""

from functools import cache

import polars as pl
import pytest

from anchorflow.summarize.claims import anchors_over_others
from constructed.claims import (
    WITH_TWIN,
    Tables,
    compression,
    expect,
    judged,
    of_claim,
    summarize,
)

# On how many texts of four anchors are loyal, where every other method is so on two.
ANCHORS = {"holds": [4], "even": [2], "fails": [0]}
OTHERS = {
    "text_anchor": [2],
    "hidden_random": [2] * 20,
    "format_only": [2],
    "label_only": [2],
}
NAMES = (
    "anchors_over_text_label_loyalty",
    "anchors_over_text_word_loyalty",
    "anchors_over_text_accuracy",
    "anchors_over_random_label_loyalty",
    "anchors_over_random_word_loyalty",
    "anchors_over_random_accuracy",
    "anchors_over_random_oracle_label_loyalty",
    "anchors_over_random_oracle_word_loyalty",
    "anchors_over_random_oracle_accuracy",
    "anchors_over_random_top_label_loyalty",
    "anchors_over_random_top_word_loyalty",
    "anchors_over_random_top_accuracy",
    "anchors_over_format_label_loyalty",
    "anchors_over_format_word_loyalty",
    "anchors_over_format_accuracy",
    "anchors_over_label_label_loyalty",
    "anchors_over_label_word_loyalty",
    "anchors_over_label_accuracy",
)
EFFECTS = {"holds": 0.5, "even": 0.0, "fails": -0.5}
# Where it is not loyal, 2 of 8 of the likeliest words stay, and not 5 of 5.
LOST = {"label_loyalty": 1, "accuracy": 1, "word_loyalty": 3 / 4}
# Of these draws, the mean is loyal on one text of four, and the best one on three.
DRAWS = [3, *[0] * 10, *[2] * 7, 1, 2]


def tables_of(anchors: str) -> Tables:
    return compression({"hidden_anchor": ANCHORS[anchors], **OTHERS})


@cache
def summary_of(own: str, twin: str) -> pl.DataFrame:
    return summarize(tables_of(own), [tables_of(twin)])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(*WITH_TWIN)
def test_anchors_over_others(
    own: str, twin: str, verdict: str, reason: str | None, name: str
) -> None:
    found = of_claim(summary_of(own, twin), name)
    lost = next(lost for measure, lost in LOST.items() if name.endswith(measure))
    expect(found, EFFECTS[own] * lost, verdict, reason, twin=EFFECTS[twin] * lost)


def test_every_claim_on_anchors_is_tested_here() -> None:
    assert {claim.name for claim in anchors_over_others.CLAIMS} == set(NAMES)


@pytest.mark.parametrize(
    ("other", "effect"), [("random", 0.75), ("random_oracle", 0.25), ("random_top", 0.25)]
)
def test_random_draws_are_averaged_or_the_best_is_chosen(other: str, effect: float) -> None:
    assert sum(DRAWS) / len(DRAWS) == 1
    tables = compression({"hidden_anchor": [4], "hidden_random": DRAWS})
    assert judged(f"anchors_over_{other}_accuracy", tables)["effect"] == pytest.approx(effect)


def test_the_best_of_fewer_draws_than_the_paper_s_is_not_the_paper_s() -> None:
    tables = compression({"hidden_anchor": [4], "hidden_random": [2] * 19})
    found = judged("anchors_over_random_oracle_accuracy", tables)
    assert found["verdict"] == "not tested"
    assert found["reason"] == "compression.draws is 19, and the paper's is 20"


@pytest.mark.parametrize(
    ("kept", "lacks"), [("hidden_anchor", "text_anchor"), ("text_anchor", "hidden_anchor")]
)
def test_a_method_that_was_not_run_is_named(kept: str, lacks: str) -> None:
    found = judged("anchors_over_text_accuracy", compression({kept: [4]}))
    assert found["verdict"] == "not tested"
    assert found["reason"] == f"compression.methods lacks {lacks}"


def test_a_single_text_has_no_other_to_choose_a_draw_by() -> None:
    tables = compression({"hidden_anchor": [4], "hidden_random": [2] * 20})
    one = {"compression": tables["compression"].filter(example=3)}
    found = judged("anchors_over_random_top_accuracy", one)
    assert found["reason"] == "a single test text leaves no other to choose a draw by"
