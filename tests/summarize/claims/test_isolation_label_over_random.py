"""Isolation of label words beside random tokens and neighbors, by hand."""

import pytest

from constructed.claims import WITH_TWIN, Tables, expect, isolation, judged

# How many predictions of four stay with label words isolated: the fewer, the more they matter.
# "even" has two draws, with which the same ones stay as with what label words are compared with.
LABEL = {"holds": [1], "even": [4, 2], "fails": [4]}
EFFECTS = {"holds": 0.5, "even": 0.0, "fails": -0.25}


def beside_random(own: str) -> Tables:
    """Two draws of random tokens, with which 3 of 4 stay on average."""
    return isolation(
        {("label", "first"): LABEL[own], ("random", "first"): [4, 2], ("label", "last"): [0]}
    )


def beside_neighbors(own: str) -> Tables:
    """The tokens before and after, with which 3 of 4 stay on average."""
    return isolation(
        {("label", "first"): LABEL[own], ("before", "first"): [2], ("after", "first"): [4]}
    )


@pytest.mark.parametrize(*WITH_TWIN)
def test_isolation_label_over_random(own: str, twin: str, verdict: str, reason: str | None) -> None:
    found = judged("isolation_label_over_random", beside_random(own), beside_random(twin))
    expect(found, EFFECTS[own], verdict, reason, twin=EFFECTS[twin])


@pytest.mark.parametrize(*WITH_TWIN)
def test_isolation_label_over_neighbors(
    own: str, twin: str, verdict: str, reason: str | None
) -> None:
    found = judged("isolation_label_over_neighbors", beside_neighbors(own), beside_neighbors(twin))
    expect(found, EFFECTS[own], verdict, reason, twin=EFFECTS[twin])


def test_what_was_not_isolated_is_not_compared() -> None:
    neighbors = judged("isolation_label_over_neighbors", beside_random("holds"))
    assert neighbors["verdict"] == "not tested"
    assert neighbors["reason"] == (
        "isolation.positions lacks after, or a demonstration has no such token"
    )
    six = isolation({("label", "first"): [1], ("random", "first"): [3]}, layers=6)
    random = judged("isolation_label_over_random", six)
    assert random["reason"] == "isolation.layers lacks 5, the paper's number"
