"""Correlation of weights with similarity, of the head that agrees most."""

import polars as pl
import pytest

from constructed.claims import ALONE, Tables, expect, judged, kernel

CORRELATION = {"holds": 0.5, "even": 0.0, "fails": -0.25}


def tables_of(own: str) -> Tables:
    """Another head agrees less, and has another correlation."""
    return kernel({(0, 0): 2, (0, 1): 4}, None, {(0, 0): 0.9, (0, 1): CORRELATION[own]})


@pytest.mark.parametrize(*ALONE)
def test_weights_follow_similarity(own: str, verdict: str, reason: str | None) -> None:
    expect(judged("weights_follow_similarity", tables_of(own)), CORRELATION[own], verdict, reason)


def test_texts_without_a_correlation_do_not_count() -> None:
    tables = tables_of("holds")
    gone = pl.when(pl.col("example") < 7).then(None).otherwise(pl.col("correlation"))
    changed = {**tables, "kernel": tables["kernel"].with_columns(correlation=gone)}
    assert judged("weights_follow_similarity", changed)["effect"] == pytest.approx(0.5)
    never = {
        **tables,
        "kernel": tables["kernel"].with_columns(correlation=pl.lit(None, pl.Float64)),
    }
    found = judged("weights_follow_similarity", never)
    assert (found["effect"], found["verdict"]) == (None, "inconclusive")
    assert found["reason"].startswith("undefined: ")
    assert found["reason"].endswith("or similarity does not vary")
