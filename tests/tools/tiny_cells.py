"""Prompts of tiny cells, and the runs on them that analyses' own ``tiny_runs.py`` define.

These files, each next to its analysis's tests, are found by name. They may define, by what is run:
``SHARDED``, from test texts and a batch's tokens to tables; ``LIMITED``, ``LIMITED_BACKWARD``, and
``LIMITED_HEAD``, from a model and prompts to a table where memory may run out; ``COUNTED``, the
module, its settings, and a run of ``TABLE``, whose tokens are counted.
"""

import importlib.util
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

import polars as pl
from transformers import PreTrainedModel

from checkout import ROOT
from tiny_models import shared_prompts, tiny_model

Tables = dict[str, pl.DataFrame]
Limited = Callable[[PreTrainedModel, pl.DataFrame], pl.DataFrame]

LENGTHS = [5, 17, 9, 12, 6, 21, 8]
APART = 5  # the one prompt that shares 29 tokens with the others, which share 30
TABLE = shared_prompts([10, 10, 10, 10])
OWN = TABLE.with_columns(demonstrations=pl.lit("per_example"))


def double_model() -> PreTrainedModel:
    """In double precision, so that what is left is not rounding but a dependence on the shards."""
    return tiny_model("llama").double()


def prompts_of_cell(demonstrations: str = "fixed") -> pl.DataFrame:
    prompts = shared_prompts(LENGTHS).with_columns(demonstrations=pl.lit(demonstrations))
    ids = prompts["token_ids"].to_list()
    ids[APART][29] += 1
    return prompts.with_columns(pl.Series("token_ids", ids))


def called(table: pl.DataFrame, *kinds: str) -> pl.DataFrame:
    """The same prompts under other protocols."""
    return pl.concat([table.with_columns(demonstrations=pl.lit(kind)) for kind in kinds])


@cache
def _modules() -> list[ModuleType]:
    found = []
    for path in sorted((ROOT / "tests/analyses").glob("*/tiny_runs.py")):
        spec = importlib.util.spec_from_file_location(f"tiny_runs_{path.parent.name}", path)
        assert spec is not None and spec.loader is not None
        found.append(importlib.util.module_from_spec(spec))
        spec.loader.exec_module(found[-1])
    return found


def tiny_runs(name: str) -> dict[str, Any]:
    """What all analyses' files define under a name such as ``SHARDED``."""
    return {key: run for of in _modules() for key, run in getattr(of, name, {}).items()}
