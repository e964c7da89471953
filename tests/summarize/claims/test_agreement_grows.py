"""Agreement with an encoder's kernel regression beside that with fewer demonstrations, by hand."""

import polars as pl
import pytest

from constructed.claims import ALONE, HEAD_TEXTS, Tables, encoder, expect, judged, model_predictions

# Every how many texts the model disagrees with one demonstration of each label, where with all it
# does on one of four.
FEWER = {"holds": 2, "even": 4, "fails": 0}
EFFECTS = {"holds": 0.25, "even": 0.0, "fails": -0.25}


def tables_of(own: str) -> Tables:
    return {"kernel_predictions": model_predictions(), **encoder(4, FEWER[own])}


@pytest.mark.parametrize(*ALONE)
def test_agreement_grows(own: str, verdict: str, reason: str | None) -> None:
    expect(judged("agreement_grows", tables_of(own)), EFFECTS[own], verdict, reason)


def test_only_texts_with_both_numbers_of_demonstrations_are_compared() -> None:
    tables = tables_of("holds")
    fewer = {**tables, "counts": tables["counts"].filter(pl.col("example") < 8)}
    assert judged("agreement_grows", fewer)["examples"] == 3 * 8
    without = {**tables, "counts": tables["counts"].filter(pl.col("seed") != 1)}
    assert judged("agreement_grows", without)["examples"] == 2 * HEAD_TEXTS


def test_the_fewest_demonstrations_are_compared_with_all() -> None:
    tables = tables_of("holds")
    more = tables["counts"].with_columns(
        demonstrations_per_label=pl.lit(2, pl.Int32), prediction=pl.lit(7, pl.Int32)
    )
    counts = pl.concat([more, tables["counts"]])
    found = judged("agreement_grows", {**tables, "counts": counts})
    assert found["effect"] == pytest.approx(0.25)
