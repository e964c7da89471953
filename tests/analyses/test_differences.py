"""Differences of shares in all analyses: their intervals end where such a difference must."""

from collections.abc import Mapping

import pytest

from anchorflow.analyses.label_words.summarize import BOUNDS as LABEL_WORDS
from anchorflow.analyses.perturbations.summarize import summarize_perturbations
from anchorflow.analyses.probes.summarize import BOUNDS as PROBES
from anchorflow.config.table import DIFFERENCE, SummaryTable
from anchorflow.store.all_tables import TABLES
from constructed.perturbations import tables_of

SUMMARIES = {name: table for name, table in TABLES.items() if isinstance(table, SummaryTable)}
WITHOUT_BOUNDS = {"loss_change", "log_odds_change"}  # in nats
OF_CORRELATIONS = {"rank_difference": (-2.0, 2.0)}  # which lie between -1 and 1 themselves


@pytest.mark.parametrize("name", SUMMARIES)
def test_a_difference_of_shares_lies_between_minus_one_and_one(name: str) -> None:
    between = {"change", "gain", "difference"}
    found = {m.name for m in SUMMARIES[name].measures if between & {*m.name.split("_")}}
    bounds = SUMMARIES[name].bounds
    for measure in found - WITHOUT_BOUNDS:
        assert bounds[measure] == OF_CORRELATIONS.get(measure, DIFFERENCE)


@pytest.mark.parametrize(
    ("bounds", "differences"),
    [(LABEL_WORDS, {"accuracy_change", "loyalty_drop"}), (PROBES, {"gain"})],
)
def test_so_it_does_where_measures_are_not_declared(
    bounds: Mapping[str, tuple[float, float]], differences: set[str]
) -> None:
    assert {name for name, ends in bounds.items() if ends == DIFFERENCE} == differences


def test_most_summaries_declare_their_measures() -> None:
    assert len(SUMMARIES) >= 14
    assert "accuracy_change" in SUMMARIES["knockout_summary"].bounds


def test_few_texts_do_not_widen_the_change_of_accuracy_beyond_all_texts() -> None:
    """Changes of 0, -1, -1, and 1 for four texts would reach to -3 by Student's t."""
    summary = summarize_perturbations(**tables_of("news", 1), confidence=0.99)
    changes = summary.filter(measure="accuracy_change")
    assert changes["low"].min() == -1
