"""Accuracy re-weighted beside the model as it is: where it is higher, equal, and lower."""

import polars as pl
import pytest

from anchorflow.schemas.reweighting import REWEIGHTING
from constructed.claims import ALONE, EXAMPLES, SEEDS, answered, expect, judged

# How many texts of four are right re-weighted, where the other way gets two right.
REWEIGHTED = {"holds": 3, "even": 2, "fails": 1}
EFFECTS = {"holds": 0.25, "even": 0.0, "fails": -0.25}


@pytest.mark.parametrize(*ALONE)
def test_reweighting_over_vanilla(own: str, verdict: str, reason: str | None) -> None:
    right = {"reweighted": REWEIGHTED[own], "vanilla": 2}
    found = judged(
        "reweighting_over_vanilla", {"reweighting": answered(right, "method", REWEIGHTING)}
    )
    expect(found, EFFECTS[own], verdict, reason)


def test_accuracies_are_compared_on_the_texts_that_both_were_run_on() -> None:
    rows = answered({"reweighted": 3, "vanilla": 2}, "method", REWEIGHTING)
    # Without every fourth text, on which both are wrong, 1 of 3 differs.
    kept = rows.filter((pl.col("method") == "reweighted") | (pl.col("example") % 4 != 3))
    found = judged("reweighting_over_vanilla", {"reweighting": kept})
    assert found["effect"] == pytest.approx(1 / 3)
    assert found["examples"] == len(SEEDS) * EXAMPLES * 3 / 4


def test_without_the_other_nothing_is_compared() -> None:
    rows = answered({"reweighted": 3}, "method", REWEIGHTING)
    found = judged("reweighting_over_vanilla", {"reweighting": rows})
    assert found["verdict"] == "not tested"
    assert found["reason"].startswith("no example was run with both reweighted and vanilla")
