"""Whether label words move the answer more than other tokens do."""

import pytest

from anchorflow.summarize.claims._claim import NotTested, Run
from anchorflow.summarize.claims.label_words_carry import CLAIMS
from constructed.transplants import transplant

(CLAIM,) = CLAIMS
OWN, DONOR = [0.25, 0.25, 0.25], [0.75, 0.5, 0.75]


def effect(**after: list[float]) -> float:
    taken = {("keys_values", places, 0): values for places, values in after.items()}
    run = Run("news", {"transplant": transplant(taken, OWN, DONOR)}, "mask", 1.0)
    return float(CLAIM.measure(run).effect.values[0])


def test_it_holds_where_label_words_alone_move_the_answer() -> None:
    assert effect(label=DONOR, text=OWN, template=OWN) == pytest.approx(1)


def test_it_fails_where_other_tokens_move_it_as_far() -> None:
    assert effect(label=DONOR, text=DONOR, template=DONOR) == pytest.approx(0)
    assert effect(label=OWN, text=DONOR, template=OWN) == pytest.approx(-0.5)


def test_it_is_not_tested_without_other_tokens() -> None:
    with pytest.raises(NotTested, match="keys and values of text and template tokens"):
        effect(label=DONOR, text=OWN)
