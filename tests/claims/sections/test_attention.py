"""Claims on what attention to label words tells: where each holds, and where not."""

from collections.abc import Callable
from functools import partial

import polars as pl
import pytest

from constructed.attention import deep_tables
from constructed.claims import BOTH, SEEDS, Constructed, Tables, expect, judged, verdicts_of

# Layers with AUCs of 0.5, 1, and 0.
KINDS = {
    "deep_auc_rises": {
        "holds": ["even", "even", "reversed", "reversed", "perfect", "perfect"],
        "even": ["perfect"] * 6,
        "fails": ["perfect", "perfect", "reversed", "reversed", "even", "even"],
    },
    "deep_gain_late": {
        "holds": ["even"] * 3 + ["perfect"] * 3,
        "even": ["perfect"] * 6,
        "fails": ["perfect"] * 3 + ["even"] * 3,
    },
}

EFFECTS = {"holds": 0.5, "even": 0.0, "fails": -0.5}


def tables_of(claim: str, own: str, control: str = "even") -> Tables:
    return deep_tables(KINDS[claim][own], KINDS[claim][control], SEEDS)


@pytest.mark.parametrize("claim", KINDS)
def test_a_network_that_always_answers_the_same_is_a_null_too(claim: str) -> None:
    """Its probabilities differ between texts; AUCROC_l of [A] would be undefined."""
    tables = deep_tables(KINDS[claim]["holds"], KINDS[claim]["even"], SEEDS)
    always = {**tables, "predictions": tables["predictions"].with_columns(prediction=pl.lit(1))}
    found = judged(claim, tables, always)
    assert (found["effect"], found["null_effect"]) == pytest.approx((0.5, 0.5))


@pytest.mark.parametrize("claim", KINDS)
def test_without_differences_between_texts_there_is_no_effect(claim: str) -> None:
    tables = deep_tables(KINDS[claim]["holds"], KINDS[claim]["even"], SEEDS, predictions=[1] * 27)
    found = judged(claim, tables)
    said = "undefined: in no seed do the labels' probabilities differ between texts"
    expect(found, None, "undecided", said)


@pytest.mark.parametrize("claim", KINDS)
def test_a_single_layer_is_neither_early_nor_late(claim: str) -> None:
    found = judged(claim, deep_tables(["perfect"], ["even"], SEEDS))
    assert (found["verdict"], found["reason"]) == ("not measured", "the model has a single layer")


def test_the_middle_one_of_an_odd_number_of_layers_is_in_neither_half() -> None:
    kinds = ["even", "even", "perfect", "perfect", "even"]  # of 0.5, half is in two upper layers
    found = judged("deep_gain_late", deep_tables(kinds, kinds, SEEDS))
    assert found["effect"] == pytest.approx(0.25)


CONSTRUCTED = tuple(Constructed(claim, partial(tables_of, claim), EFFECTS, BOTH) for claim in KINDS)


@verdicts_of(*CONSTRUCTED)
def test_verdicts(check: Callable[[], None]) -> None:
    check()
