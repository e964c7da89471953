"""Accuracy with the demonstrations' labels beside that with these shuffled, by hand."""

import polars as pl
import pytest

from anchorflow.schemas.predictions import PREDICTIONS
from constructed.claims import ALONE, answered, expect, judged

# How many texts of four are right, where with shuffled labels two are.
RIGHT = {"holds": 3, "even": 2, "fails": 1}
EFFECTS = {"holds": 0.25, "even": 0.0, "fails": -0.25}


def predicted(right: int, words: str = "") -> pl.DataFrame:
    rows = answered({"x": right}, "label", PREDICTIONS)
    labels = (pl.col("example") % 2).cast(rows.schema["label"])
    return rows.with_columns(labels.alias("label"), task=pl.col("task") + words)


@pytest.mark.parametrize(*ALONE)
def test_labels_inform(own: str, verdict: str, reason: str | None) -> None:
    shuffled = predicted(2, "+shuffled")
    tables = {"predictions": predicted(RIGHT[own]), "shuffled_predictions": shuffled}
    expect(judged("labels_inform", tables), EFFECTS[own], verdict, reason)


def test_without_shuffled_labels_nothing_is_compared() -> None:
    found = judged("labels_inform", {"predictions": predicted(3)})
    assert found["verdict"] == "not tested"
    assert found["reason"] == "labels were not shuffled (controls.shuffled_labels)"
