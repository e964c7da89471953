"""Tiny runs of flow, for the tests of shards, of memory, and of cost."""

from functools import partial

from anchorflow.analyses.flow import measure as flow
from anchorflow.analyses.flow.measure import measure_flow
from tiny_cells import OWN, TABLE, Limited, Tables, called, double_model, prompts_of_cell


def sharded(demonstrations: str, examples: list[int] | None, batch_tokens: int) -> Tables:
    prompts = prompts_of_cell(demonstrations)
    rows = measure_flow(double_model(), prompts, batch_tokens, demonstrations, examples)
    return {"flow": rows}


SHARDED = {
    "flow": partial(sharded, "per_example"),
    "flow of fixed demonstrations": partial(sharded, "fixed"),
}
LIMITED: dict[str, Limited] = {
    "flow": lambda model, table: measure_flow(model, called(table, "per_example"), 1000),
    "shared flow": lambda model, table: measure_flow(model, table, 1000, "fixed"),
}
LIMITED_BACKWARD = LIMITED
COUNTED = {
    "flow": (flow, {"demonstrations": "per_example"}, lambda m: flow.measure_flow(m, OWN, 1000)),
    "shared flow": (
        flow,
        {"demonstrations": "fixed"},
        lambda m: flow.measure_flow(m, TABLE, 1000, "fixed"),
    ),
}
