"""Tiny runs of cutoff, for the tests of shards, of memory, and of cost."""

from anchorflow.analyses.cutoff import measure as cutoff
from anchorflow.analyses.cutoff.measure import measure_cutoff
from anchorflow.analyses.cutoff.measure import settings_of as cutoffs_of
from tiny_cells import TABLE, Limited, Tables, double_model, prompts_of_cell


def sharded(examples: list[int] | None, batch_tokens: int) -> Tables:
    settings = cutoffs_of(("first", "label", "random"), 2, 1, 3)
    rows = measure_cutoff(double_model(), prompts_of_cell(), settings, 4, batch_tokens, examples)
    return {"cutoff": rows}


SHARDED = {"cutoff": sharded}
LIMITED: dict[str, Limited] = {
    "cutoff": lambda model, table: measure_cutoff(
        model, table, cutoffs_of(["label"], 1, 1, 3), 4, 1000
    )
}
COUNTED = {
    "cutoff": (
        cutoff,
        {"sees": ["label", "random"], "draws": 2, "every": 1},
        lambda m: cutoff.measure_cutoff(
            m, TABLE, cutoff.settings_of(["label", "random"], 2, 1, 3), 4, 1000
        ),
    )
}
