"""Tiny runs of isolation, for the tests of shards, of memory, and of cost."""

from anchorflow.analyses.isolation import measure as isolation
from anchorflow.analyses.isolation.measure import measure_isolation, settings_of
from tiny_cells import TABLE, Limited, Tables, double_model, prompts_of_cell

ISOLATED = {"variants": ["mask"], "positions": ["label", "random"], "draws": 2, "layers": [1, 2]}


def sharded(examples: list[int] | None, batch_tokens: int) -> Tables:
    positions = ("label", "random", "before", "text")
    settings = settings_of(["mask", "zero"], [1, 2], 5, 3, "tiny", positions)
    rows = measure_isolation(double_model(), prompts_of_cell(), settings, 4, batch_tokens, examples)
    return {"isolation": rows}


SHARDED = {"isolation": sharded}
LIMITED: dict[str, Limited] = {
    "isolation": lambda model, table: measure_isolation(
        model, table, settings_of(["mask"], [1], 1, 3, "tiny"), 4, 1000
    )
}
LIMITED_HEAD = {"isolation": LIMITED["isolation"]}
COUNTED = {
    "isolation": (
        isolation,
        ISOLATED,
        lambda m: isolation.measure_isolation(
            m, TABLE, isolation.settings_of(["mask"], [1, 2], 2, 3, "tiny"), 4, 1000
        ),
    )
}
