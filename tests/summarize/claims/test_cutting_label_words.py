"""Whether cutting label words off is told from cutting any tokens off, and from no training."""

import pytest

from anchorflow.summarize.claims._claim import Claim, NotTested, Run
from anchorflow.summarize.claims.cutting_label_words import CLAIMS
from constructed.knockouts import Change, knockout

(CLAIM,) = CLAIMS
assert isinstance(CLAIM, Claim)
PLAIN = [0.5, 0.5, 0.5]
EDGES, RANDOM = ("label_to_target", False, 0), ("label_to_target", True, 0)


def effect(cut: dict[Change, list[float]], band: tuple[str, int, int] = ("last", 2, 1)) -> float:
    run = Run("news", {"knockout": knockout(cut, PLAIN, band)}, "mask", 1.0)
    return float(CLAIM.measure(run).effect.values[0])


def test_it_holds_where_only_cutting_label_words_changes_the_loss_in_whatever_direction() -> None:
    assert effect({EDGES: [0.25, 0.25, 0.9], RANDOM: PLAIN}) > 0.5


def test_it_fails_where_random_edges_change_as_much() -> None:
    assert effect({EDGES: [0.25, 0.25, 0.5], RANDOM: [0.5, 0.25, 0.25]}) == pytest.approx(0)
    assert effect({EDGES: PLAIN, RANDOM: [0.25, 0.25, 0.25]}) < -0.5


def test_it_is_not_tested_without_random_edges_or_the_last_third() -> None:
    with pytest.raises(NotTested, match="random edges in place of these"):
        effect({EDGES: PLAIN})
    with pytest.raises(NotTested, match="label_to_target in the last third"):
        effect({EDGES: PLAIN, RANDOM: PLAIN}, ("single", 2, 1))
