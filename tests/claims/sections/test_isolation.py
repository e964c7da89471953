"""Claims on isolation: where each holds, and where not, by hand."""

from collections.abc import Callable

import polars as pl
import pytest

from constructed import claims as made
from constructed.attention import attention_table, attention_towards

# How many predictions of four stay with label words isolated: the fewer, the more they matter.
# "even" has two draws, with which the same ones stay as with what label words are compared with.
LABEL = {"holds": [1], "even": [4, 2], "fails": [4]}

EFFECTS_RANDOM = {"holds": 0.5, "even": 0.0, "fails": -0.25}


def beside_random(own: str) -> made.Tables:
    """Two draws of random tokens, with which 3 of 4 stay on average."""
    return made.isolation(
        {("label", "first"): LABEL[own], ("random", "first"): [4, 2], ("label", "last"): [0]}
    )


def beside_neighbors(own: str) -> made.Tables:
    """The tokens before and after, with which 3 of 4 stay on average."""
    return made.isolation(
        {("label", "first"): LABEL[own], ("before", "first"): [2], ("after", "first"): [4]}
    )


def test_answers_that_all_stay_may_still_lose_what_demonstrations_do() -> None:
    """A network that gives one answer keeps it whatever is isolated, so loyalty is 1 anywhere."""
    table = made.isolation({("label", "first"): [4], ("random", "first"): [4]})["isolation"]
    first = {"none": 0.9, "random": 0.9, "label": 0.6, "hidden": 0.6}  # of the label predicted
    table = table.with_columns(
        probabilities=pl.Series([[first[p], 1 - first[p]] for p in table["positions"]]),
        prediction=pl.lit(0, pl.Int32),
    )
    found = made.judged("isolation_label_over_random", {"isolation": table})
    assert found["effect"] == pytest.approx(1)  # all is lost with label words, nothing with others


# How many predictions of four stay with tokens isolated in the first and in the last layers.
SIDES = {"holds": (1, 4), "even": (3, 3), "fails": (3, 2)}

EFFECTS_FIRST = {"holds": 0.75, "even": 0.0, "fails": -0.25}


def tables_of(own: str, random: str = "even", depth: int = 6) -> made.Tables:
    """Label words, and random tokens in their place, of a model with so many layers."""
    unchanged = {
        (positions, side): [SIDES[what][place]]
        for positions, what in (("label", own), ("random", random))
        for place, side in enumerate(("first", "last"))
    }
    towards = attention_towards([0], [0, 1], ["even"] * depth)
    return {**made.isolation(unchanged), "attention": attention_table(towards, [0, 1], "news")}


def test_what_is_lacking_is_named() -> None:
    reason = "isolation.positions lacks after, or a demonstration has no such token"
    made.lacks("isolation_label_over_neighbors", beside_random("holds"), reason)
    six = made.isolation({("label", "first"): [1], ("random", "first"): [3]}, layers=6)
    made.lacks("isolation_label_over_random", six, "isolation.layers lacks 5, the paper's number")
    five = tables_of("holds", depth=5)
    reason = "all layers are isolated, so that the first are the last"
    made.lacks("isolation_first_over_last", five, reason)


CONSTRUCTED = (
    made.Constructed("isolation_label_over_random", beside_random, EFFECTS_RANDOM, made.TWIN),
    made.Constructed("isolation_label_over_neighbors", beside_neighbors, EFFECTS_RANDOM, made.TWIN),
    made.Constructed("isolation_first_over_last", tables_of, EFFECTS_FIRST, made.BOTH),
)


@made.verdicts_of(*CONSTRUCTED)
def test_verdicts(check: Callable[[], None]) -> None:
    check()
