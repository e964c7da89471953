"""Tiny runs of vectors, for the test of cost."""

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import polars as pl
from transformers import PreTrainedModel

from anchorflow.analyses.vectors import measure as vectors
from tiny_cells import TABLE

Run = Callable[[PreTrainedModel], object]


def counted(*kinds: str) -> tuple[ModuleType, Mapping[str, Any], Run]:
    # Of each label two texts, since those that are alone in theirs are left out.
    pairs = (pl.col("example") % 2).cast(TABLE.schema["label"])
    table = TABLE.with_columns(label=pairs)
    spec = {"kinds": kinds, "depths": 2, "heads": 3, "demonstrations": []}
    return (
        vectors,
        spec,
        lambda model: vectors.measure_vectors(model, table, spec, range(90), 1000, other=table),
    )


COUNTED = {"vectors at the target": counted("task"), "local vectors": counted("local")}
