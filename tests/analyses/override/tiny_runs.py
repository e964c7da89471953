"""A tiny run of override, for the test of cost."""

from anchorflow.analyses.override import measure as override
from tiny_cells import TABLE, called

WORDS = [" a", " b", " c"]
FIT = {"learning_rates": [0.1], "epochs": 2, "batch_size": 0, "examples_per_label": 4 / 3}
SPEC = {"ways": ["full", "hidden_anchor", "reweighted", "reweighted_anchor"], "fit": FIT}
SPEC |= {"positions": "original"}
COUNTED = {
    "override": (
        override,
        SPEC,
        lambda m: override.measure_override(
            m, called(TABLE, "fixed", "training"), WORDS, SPEC, 1000
        ),
    )
}
