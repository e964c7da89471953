"""The best head beside a constant, both chosen on other texts: agreement worked out by hand."""

from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest

from anchorflow.random_draws import halves
from anchorflow.summarize.claims._heads import agreement_of_constant
from constructed.claims import ALONE, HEAD_TEXTS, TOLD, Tables, disagrees, expect, judged, kernel

# The model says 1 of three quarters of each half, which is what the constant agrees with.
SAID = [int(not disagrees(example, 4)) for example in range(HEAD_TEXTS)]
# Every how many texts the best of three heads disagrees.
HEADS = {"holds": 0, "even": 4, "fails": 2}
EFFECTS = {"holds": 0.25, "even": 0.0, "fails": -0.25}


def tables_of(own: str, told: Sequence[int] = SAID) -> Tables:
    return kernel({(0, 0): 1, (0, 1): HEADS[own], (1, 0): 2}, told=told)


@pytest.mark.parametrize(*ALONE)
def test_heads_reconstruct(own: str, verdict: str, reason: str | None) -> None:
    expect(judged("heads_reconstruct", tables_of(own)), EFFECTS[own], verdict, reason)


def test_the_constant_is_chosen_on_the_other_half() -> None:
    # 0 is more frequent in the first half, and 1 in the second; each is scored on the other.
    predictions, half = np.array([0, 0, 1, 1, 1, 0]), np.array([0, 0, 0, 1, 1, 1])
    agreement = agreement_of_constant(predictions, half)
    assert agreement[:, 0].tolist() == [0, 0, 1, 0, 0, 1]
    assert np.isnan(agreement_of_constant(predictions, np.zeros(6))).all()


def test_heads_are_scored_on_texts_that_they_were_not_chosen_on() -> None:
    # Each of two heads agrees on one half alone, so the one chosen there agrees nowhere else.
    half = halves(pl.Series(range(HEAD_TEXTS)), 0)["half"].to_list()
    tables = kernel({(0, 0): 0, (0, 1): 0}, told=TOLD)
    in_half = pl.col("example").replace_strict(dict(enumerate(half))) == pl.col("head")
    told = pl.when(in_half).then(pl.col("prediction"))
    changed = {**tables, "kernel": tables["kernel"].with_columns(prediction=told)}
    found = judged("heads_reconstruct", changed)
    shares = [np.mean([TOLD[e] for e in range(HEAD_TEXTS) if half[e] == part]) for part in (0, 1)]
    constant = np.mean(
        [shares[part] if shares[1 - part] > 0.5 else 1 - shares[part] for part in (0, 1)]
    )
    assert found["effect"] == pytest.approx(0 - constant)


def test_a_single_text_has_no_other_to_choose_a_head_by() -> None:
    tables = {name: rows.filter(example=0) for name, rows in tables_of("holds").items()}
    found = judged("heads_reconstruct", tables)
    said = "there are no texts to score a head on that it was not chosen on"
    assert (found["verdict"], found["reason"]) == ("not tested", said)
