"""Whether label words are told from other tokens where nothing else is seen."""

import pytest

from anchorflow.summarize.claims._claim import NotTested, Run
from anchorflow.summarize.claims.label_words_suffice_late import CLAIMS
from constructed.cutoffs import cutoff

(CLAIM,) = CLAIMS
PLAIN = [1, 1, 0, 0]


def effect(label: list[int], random: list[int]) -> float:
    """With these predictions from the last of three layers on."""
    other = [0, 0, 1, 1]
    tables = {"label": [other, other, label], "random": [other, other, random]}
    run = Run("news", {"cutoff": cutoff(tables, PLAIN)}, "mask", 1.0)
    return float(CLAIM.measure(run).effect.values[0])


def test_it_holds_where_label_words_alone_keep_the_answer() -> None:
    assert effect(PLAIN, [0, 1, 0, 1]) == pytest.approx(0.5)


def test_it_fails_where_any_tokens_keep_it() -> None:
    assert effect(PLAIN, PLAIN) == pytest.approx(0)
    assert effect([0, 1, 0, 1], PLAIN) == pytest.approx(-0.5)


def test_it_is_not_tested_without_other_tokens() -> None:
    run = Run("news", {"cutoff": cutoff({"label": [PLAIN] * 3}, PLAIN)}, "mask", 1.0)
    with pytest.raises(NotTested):
        CLAIM.measure(run)
