"""Differences of shares in all analyses: their intervals end where such a difference must."""

from collections.abc import Mapping

import pytest

from anchorflow.analyses.knockout.summarize import BOUNDS as KNOCKOUT
from anchorflow.analyses.label_words.summarize import BOUNDS as LABEL_WORDS
from anchorflow.analyses.orders.summarize import BOUNDS as ORDERS
from anchorflow.analyses.perturbations.summarize import CHANGES, summarize_perturbations
from anchorflow.analyses.probes.summarize import BOUNDS as PROBES
from anchorflow.analyses.retrieval.summarize import GAINS
from anchorflow.analyses.reweighting.summarize import BOUNDS as REWEIGHTING
from constructed.perturbations import tables_of

CHANGES_OF_ACCURACY = {
    f"accuracy_{name}{part}"
    for name in ("change", "gain")
    for part in ("", "_losing_task", "_other_label")
}


@pytest.mark.parametrize(
    ("bounds", "differences"),
    [
        (KNOCKOUT, {*CHANGES_OF_ACCURACY, "probability_change"}),
        (LABEL_WORDS, {"accuracy_change", "loyalty_drop"}),
        (ORDERS, {"accuracy_difference", "spread_difference", "changed_difference"}),
        (CHANGES.bounds, CHANGES_OF_ACCURACY),
        (PROBES, {"gain"}),
        (GAINS.bounds, CHANGES_OF_ACCURACY),
        (REWEIGHTING, {*CHANGES_OF_ACCURACY, "macro_f1_gain"}),
    ],
)
def test_a_difference_of_shares_lies_between_minus_one_and_one(
    bounds: Mapping[str, tuple[float, float]], differences: set[str]
) -> None:
    assert {name for name, ends in bounds.items() if ends == (-1, 1)} == differences


def test_few_texts_do_not_widen_the_change_of_accuracy_beyond_all_texts() -> None:
    """Changes of 0, -1, -1, and 1 for four texts would reach to -3 by Student's t."""
    summary = summarize_perturbations(**tables_of("news", 1), confidence=0.99)
    changes = summary.filter(measure="accuracy_change")
    assert changes["low"].min() == -1
