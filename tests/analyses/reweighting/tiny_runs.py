"""Tiny runs of reweighting, for the tests of shards, of memory, and of cost."""

from anchorflow.analyses.reweighting import measure as reweighting
from anchorflow.analyses.reweighting.measure import measure_reweighting
from tiny_cells import TABLE, Limited, called

FIT = {"learning_rates": [0.1], "epochs": 2, "batch_size": 0}
COUNTED_FIT = {"learning_rates": [0.1, 1], "further_rates": [], "epochs": 2, "batch_size": 2}
LIMITED: dict[str, Limited] = {
    "reweighting": lambda model, table: (
        measure_reweighting(
            model,
            called(table, "fixed", "training", "calibrated", "domain_calibrated", "many"),
            [" a", " b", " c"],
            {
                **FIT,
                "baselines": [
                    "calibrated",
                    "domain_calibrated",
                    "batch_calibrated",
                    "attention_regression",
                ],
                "further_rates": [0.01],
            },
            1000,
        ).predictions
    )
}
COUNTED = {
    "reweighting": (
        reweighting,
        {**COUNTED_FIT, "anchors": "original", "examples_per_label": 4 / 3},
        lambda m: reweighting.measure_reweighting(
            m,
            called(TABLE, "fixed", "training", "many"),
            [" a", " b", " c"],
            {**COUNTED_FIT, "baselines": []},
            1000,
            anchors="original",
        ),
    )
}
