"""Differences of shares in all analyses: their intervals end where such a difference must."""

import pytest

from anchorflow.analyses.perturbations.summarize import summarize_perturbations
from anchorflow.config.table import DIFFERENCE, Summary
from anchorflow.store.all_tables import TABLES
from constructed.perturbations import tables_of

SUMMARIES = {name: table for name, table in TABLES.items() if isinstance(table, Summary)}
WITHOUT_BOUNDS = {"loss_change", "log_odds_change"}  # in nats


@pytest.mark.parametrize("name", SUMMARIES)
def test_a_difference_of_shares_lies_between_minus_one_and_one(name: str) -> None:
    between = {"change", "gain", "difference"}
    found = {m.name for m in SUMMARIES[name].measures if between & {*m.name.split("_")}}
    bounds = SUMMARIES[name].bounds
    assert all(bounds[measure] == DIFFERENCE for measure in found - WITHOUT_BOUNDS)


def test_most_summaries_declare_their_measures() -> None:
    assert {"knockout_summary", "isolation_summary", "transplant_summary"} < set(SUMMARIES)


def test_few_texts_do_not_widen_the_change_of_accuracy_beyond_all_texts() -> None:
    """Changes of 0, -1, -1, and 1 for four texts would reach to -3 by Student's t."""
    summary = summarize_perturbations(**tables_of("news", 1), confidence=0.99)
    changes = summary.filter(measure="accuracy_change")
    assert changes["low"].min() == -1
