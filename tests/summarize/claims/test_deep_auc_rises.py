"""Attention to label words tells answers better late: where it does, and where not."""

import pytest

from constructed.claims import SEEDS, WITH_BOTH, expect, judged
from constructed.deep import deep_tables

# Layers with AUCs of 0.5, 1, and 0.
KINDS = {
    "holds": ["even", "even", "reversed", "reversed", "perfect", "perfect"],
    "even": ["perfect"] * 6,
    "fails": ["perfect", "perfect", "reversed", "reversed", "even", "even"],
}
EFFECTS = {"holds": 0.5, "even": 0.0, "fails": -0.5}


@pytest.mark.parametrize(*WITH_BOTH)
def test_deep_auc_rises(
    own: str, control: str, twin: str, verdict: str, reason: str | None
) -> None:
    tables = deep_tables(KINDS[own], KINDS[control], SEEDS)
    untrained = deep_tables(KINDS[twin], KINDS["even"], SEEDS)
    found = judged("deep_auc_rises", tables, untrained)
    expect(found, EFFECTS[own], verdict, reason, EFFECTS[control], EFFECTS[twin])


def test_a_network_that_always_answers_the_same_is_no_null() -> None:
    tables = deep_tables(KINDS["holds"], KINDS["even"], SEEDS)
    untrained = deep_tables(KINDS["even"], KINDS["even"], SEEDS, predictions=[1] * 9)
    found = judged("deep_auc_rises", tables, untrained)
    said = "undefined for tiny+initialized-0: in no seed does the model predict two labels"
    expect(found, 0.5, "inconclusive", said, control=0.0)
    assert found["p_value"] is None
    another = judged(
        "deep_auc_rises", tables, untrained, deep_tables(KINDS["even"], KINDS["even"], SEEDS)
    )
    expect(another, 0.5, "supported", said, control=0.0, twin=0.0)


def test_a_model_that_always_answers_the_same_has_no_effect() -> None:
    tables = deep_tables(KINDS["holds"], KINDS["even"], SEEDS, predictions=[1] * 9)
    found = judged("deep_auc_rises", tables)
    said = "undefined: in no seed does the model predict two labels"
    expect(found, None, "inconclusive", said)


def test_a_single_layer_is_neither_early_nor_late() -> None:
    found = judged("deep_auc_rises", deep_tables(["perfect"], ["even"], SEEDS))
    assert (found["verdict"], found["reason"]) == ("not tested", "the model has a single layer")
