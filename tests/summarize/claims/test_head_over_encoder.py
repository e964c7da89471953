"""The best head beside an encoder's kernel regression: held-out agreement worked out by hand."""

import pytest

from constructed.claims import (
    ALONE,
    Tables,
    agreement_of_constant,
    encoder,
    expect,
    judged,
    kernel,
)

# Every how many texts the encoder disagrees, where the best head does on one of four.
ENCODER = {"holds": 2, "even": 4, "fails": 0}
EFFECTS = {"holds": 0.25, "even": 0.0, "fails": -0.25}


def tables_of(own: str) -> Tables:
    return {**kernel({(0, 0): 2, (0, 1): 4}), **encoder(ENCODER[own])}


@pytest.mark.parametrize(*ALONE)
def test_head_over_encoder(own: str, verdict: str, reason: str | None) -> None:
    # The encoder agrees on .5, .75, and 1 of the texts, and the best head on .75.
    control = agreement_of_constant() - (0.75 - EFFECTS[own])
    expect(judged("head_over_encoder", tables_of(own)), EFFECTS[own], verdict, reason, control)
