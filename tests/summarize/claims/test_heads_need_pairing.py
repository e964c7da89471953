"""The best head beside the same with its weights permuted: held-out agreement by hand."""

import pytest

from constructed.claims import (
    ALONE,
    HEAD_TEXTS,
    Tables,
    agreement_of_constant,
    expect,
    judged,
    kernel,
)

# Every how many texts the best head disagrees with its weights permuted, where else it does on one
# of four.
PERMUTED = {"holds": 2, "even": 4, "fails": 0}
EFFECTS = {"holds": 0.25, "even": 0.0, "fails": -0.25}


def tables_of(own: str) -> Tables:
    """Another head agrees less, and always when permuted."""
    return kernel({(0, 0): 2, (0, 1): 4}, {(0, 0): 0, (0, 1): PERMUTED[own]})


@pytest.mark.parametrize(*ALONE)
def test_heads_need_pairing(own: str, verdict: str, reason: str | None) -> None:
    # Permuted, the head agrees on .5, .75, and 1 of the texts, and itself on .75.
    control = agreement_of_constant() - (0.75 - EFFECTS[own])
    expect(judged("heads_need_pairing", tables_of(own)), EFFECTS[own], verdict, reason, control)


def test_a_head_that_answers_always_the_same_as_the_model_does_needs_no_pairing() -> None:
    # Permuted weights lower its agreement from 1 to 1 of 2, and that of a constant as well.
    tables = kernel({(0, 0): 2, (0, 1): 0}, {(0, 0): 0, (0, 1): 2}, told=[1] * HEAD_TEXTS)
    found = judged("heads_need_pairing", tables)
    assert found["effect"] == found["control_effect"] == 0.5
    assert (found["verdict"], found["reason"]) == ("not supported", "also true of its control")
