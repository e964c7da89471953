"""Key distances beside how well labels are told apart: rank correlations worked out by hand."""

from collections.abc import Mapping, Sequence

import polars as pl
import pytest

from anchorflow.schemas.diagnosis import DIAGNOSIS
from anchorflow.schemas.predictions import PREDICTIONS
from constructed.claims import LAYERS, Tables, cells, expect, frame, judged

Distances = Mapping[tuple[int, int], float | None]

# Probabilities by true label. Of three labels, 0 and 1 are always told apart, 0 and 2 never, and 1
# and 2 always mistaken for one another: AUCs of 1, 0.5 and 0.
THREE = [[0.4, 0.2, 0.4], [0.4, 0.3, 0.3], [0.3, 0.4, 0.3]]
# Of four, neighbors are always told apart, and the others never: AUCs of 1 and 0.5.
FOUR = [[0.4, 0.1, 0.4, 0.1], [0.1, 0.4, 0.1, 0.4]] * 2
FAR: Distances = {(0, 1): 1.0, (0, 2): 0.6, (1, 2): 0.2}
NEAR: Distances = {(0, 1): 0.2, (0, 2): 0.6, (1, 2): 1.0}
# Three of four labels' neighbors far apart: rotating the labels, all four pairs of neighbors take
# one another's distances.
NEIGHBORS: Distances = {
    (a, b): 1.0 if (b - a) % 2 else 0.4 for a in range(4) for b in range(a + 1, 4)
}


def tables_of(
    late: Distances, early: Distances = NEAR, probabilities: Sequence[Sequence[float]] = THREE
) -> Tables:
    """Distances of late and of other layers, and predictions of nine texts or more per seed."""
    classes = len(probabilities)
    predictions = [
        {
            **cell,
            "label": cell["example"] % classes,
            "prediction": 0,
            "probabilities": probabilities[cell["example"] % classes],
        }
        for cell in cells(examples=12)
    ]
    diagnosis = [
        {**cell, "layer": layer, "label": a, "other": b, "distance": distance}
        for cell in cells(examples=1)
        for layer in range(LAYERS)
        for (a, b), distance in (late if layer >= LAYERS - 2 else early).items()
    ]
    return {
        "predictions": frame(predictions, PREDICTIONS),
        "diagnosis": frame(
            [{k: v for k, v in row.items() if k != "example"} for row in diagnosis], DIAGNOSIS
        ),
    }


@pytest.mark.parametrize(
    ("late", "effect", "control", "verdict", "reason"),
    [
        # Of three labels, the distances' ranks rotate too, so correlations add up to 0.
        (FAR, 1.0, -0.5, "supported", None),
        (NEAR, -1.0, 0.5, "not supported", "the effect is not above 0"),
    ],
)
def test_diagnosis_predicts_confusion(
    late: Distances, effect: float, control: float, verdict: str, reason: str | None
) -> None:
    early = NEAR if late is FAR else FAR
    found = judged("diagnosis_predicts_confusion", tables_of(late, early))
    expect(found, effect, verdict, reason, control)


def test_distances_that_tell_other_labels_as_well_tell_nothing_of_these() -> None:
    found = judged("diagnosis_predicts_confusion", tables_of(NEIGHBORS, NEIGHBORS, FOUR))
    expect(found, 1.0, "not supported", "also true of its control", 1.0)


def test_two_labels_have_no_rank_correlation() -> None:
    tables = tables_of({(0, 1): 1.0}, {(0, 1): 1.0}, [[0.6, 0.4], [0.4, 0.6]])
    found = judged("diagnosis_predicts_confusion", tables)
    assert found["verdict"] == "not tested"
    assert found["reason"] == "a rank correlation needs three labels or more"


def test_keys_without_distances_leave_it_undefined() -> None:
    tables = tables_of(dict.fromkeys(FAR), dict.fromkeys(FAR))
    found = judged("diagnosis_predicts_confusion", tables)
    said = "undefined: in no layer are there three pairs of labels whose AUC and distance vary"
    expect(found, None, "inconclusive", said)


def test_a_layer_without_distances_does_not_count() -> None:
    tables = tables_of(FAR)
    gone = pl.when(pl.col("layer") == LAYERS - 1).then(None).otherwise(pl.col("distance"))
    changed = {**tables, "diagnosis": tables["diagnosis"].with_columns(distance=gone)}
    assert judged("diagnosis_predicts_confusion", changed)["effect"] == pytest.approx(1)
