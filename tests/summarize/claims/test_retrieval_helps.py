"""Nearest beside random demonstrations, and beside the majority of their labels, by hand."""

import polars as pl
import pytest

from anchorflow.schemas.prompts import PROMPTS
from anchorflow.schemas.retrieval import RETRIEVAL
from constructed.claims import WITH_CONTROL, Tables, answered, cells, expect, frame, judged

CLAIMS = {"retrieval_helps": "nearest", "retrieval_per_label_helps": "nearest_per_label"}
# How many texts of four are right, by the model or by vote, where with random demonstrations the
# model gets one right.
RIGHT = {"holds": 3, "even": 1, "fails": 0}
EFFECTS = {"holds": 0.5, "even": 0.0, "fails": -0.25}


def tables_of(choice: str, own: str, vote: str) -> Tables:
    """Answers with both choices, and prompts whose demonstrations' labels vote as said."""
    voted = answered({choice: RIGHT[vote]}, "choice", RETRIEVAL)
    prompts = [
        {
            **row,
            "demonstrations": demonstrations,
            "demonstration_labels": [1 - answer, answer, answer]
            if choice == "nearest"
            else [1 - answer, answer],
        }
        for row, told in zip(cells(), voted["prediction"], strict=True)
        for demonstrations, answer in ((choice, told), ("another", 1 - told))
    ]
    return {
        "retrieval": answered({choice: RIGHT[own], "random": 1}, "choice", RETRIEVAL),
        "retrieval_prompts": frame(prompts, PROMPTS),
    }


@pytest.mark.parametrize(("claim", "choice"), CLAIMS.items())
@pytest.mark.parametrize(*WITH_CONTROL)
def test_retrieval_helps(
    own: str, control: str, verdict: str, reason: str | None, claim: str, choice: str
) -> None:
    found = judged(claim, tables_of(choice, own, control))
    expect(found, EFFECTS[own], verdict, reason, EFFECTS[control])


def test_texts_without_random_demonstrations_are_left_out_of_the_vote_too() -> None:
    tables = tables_of("nearest", "holds", "even")
    # The vote is right on every fourth text, on which random demonstrations were not run.
    kept = pl.col("choice").eq("nearest") | (pl.col("example") % 4 != 0)
    found = judged("retrieval_helps", {**tables, "retrieval": tables["retrieval"].filter(kept)})
    assert found["effect"] == pytest.approx(2 / 3)
    assert found["control_effect"] == 0


def test_without_random_demonstrations_nothing_is_compared() -> None:
    tables = tables_of("nearest", "holds", "even")
    rows = tables["retrieval"].filter(choice="nearest")
    found = judged("retrieval_helps", {**tables, "retrieval": rows})
    assert found["verdict"] == "not tested"
    assert found["reason"].startswith("no example was run with both nearest and random")
