"""Tiny runs of transplant, for the tests of shards, of memory, and of cost."""

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from transformers import PreTrainedModel

from anchorflow.analyses.transplant import measure as transplant
from anchorflow.analyses.transplant.measure import measure_transplant
from anchorflow.analyses.transplant.measure import settings_of as transplants_of
from tiny_cells import TABLE, Limited, Tables, double_model, prompts_of_cell

TAKEN = {"places": ["label", "text"], "donors": ["permuted"], "depths": 3, "window": 0, "draws": 1}
Run = Callable[[PreTrainedModel], object]


def taken(what: str) -> tuple[ModuleType, Mapping[str, Any], Run]:
    spec = {**TAKEN, "what": [what]}
    settings = transplant.settings_of(["label", "text"], ["permuted"], [what], 3, 1, 3)
    return transplant, spec, lambda m: transplant.measure_transplant(m, TABLE, settings, 1000)


def sharded(examples: list[int] | None, batch_tokens: int) -> Tables:
    places = ("label", "text", "demonstrations")
    settings = transplants_of(places, ("permuted", "drawn"), ("keys_values", "residual"), 3, 2, 3)
    rows = measure_transplant(double_model(), prompts_of_cell(), settings, batch_tokens, examples)
    return {"transplant": rows}


SHARDED = {"transplant": sharded}
LIMITED: dict[str, Limited] = {
    "transplant": lambda model, table: measure_transplant(
        model, table, transplants_of(["label"], ["permuted"], ["keys_values"], 2, 1, 3), 1000
    )
}
COUNTED = {
    "transplanted keys and values": taken("keys_values"),
    "transplanted residuals": taken("residual"),
}
