"""Isolation of label words early beside late: differences of how many predictions stay, by hand."""

import pytest

from constructed.claims import WITH_BOTH, Tables, expect, isolation, judged
from constructed.deep import attention_table, attention_towards

# How many predictions of four stay with tokens isolated in the first and in the last layers.
SIDES = {"holds": (1, 4), "even": (3, 3), "fails": (3, 2)}
EFFECTS = {"holds": 0.75, "even": 0.0, "fails": -0.25}


def tables_of(own: str, random: str = "even", depth: int = 6) -> Tables:
    """Label words, and random tokens in their place, of a model with so many layers."""
    unchanged = {
        (positions, side): [SIDES[what][place]]
        for positions, what in (("label", own), ("random", random))
        for place, side in enumerate(("first", "last"))
    }
    towards = attention_towards([0], [0, 1], ["even"] * depth)
    return {**isolation(unchanged), "attention": attention_table(towards, [0, 1], "news")}


@pytest.mark.parametrize(*WITH_BOTH)
def test_isolation_first_over_last(
    own: str, control: str, twin: str, verdict: str, reason: str | None
) -> None:
    found = judged("isolation_first_over_last", tables_of(own, control), tables_of(twin))
    expect(found, EFFECTS[own], verdict, reason, EFFECTS[control], EFFECTS[twin])


def test_five_layers_that_are_all_have_no_ends() -> None:
    found = judged("isolation_first_over_last", tables_of("holds", depth=5))
    assert found["verdict"] == "not tested"
    assert found["reason"] == "all layers are isolated, so that the first are the last"
