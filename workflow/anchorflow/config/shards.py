"""Large test sets in shards: each job measures some of the test texts of a cell.

A shard is named by the range of its test texts, such as ``100-200``, the end excluded. What all
prompts of a cell share is determined from all of them in every shard, so that no number depends on
the sharding.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the rules import this module, and every job reads the rules
    import polars as pl


def shard_names(test_examples: int, examples_per_shard: int | None) -> list[str]:
    """The shards of a test set; none if one job measures all of it.

    If a task has fewer texts than ``test_examples``, its last shards are shorter or empty.
    """
    if examples_per_shard is None or examples_per_shard >= test_examples:
        return []
    firsts = range(0, test_examples, examples_per_shard)
    return [f"{first}-{min(first + examples_per_shard, test_examples)}" for first in firsts]


def is_first(shard: str | None) -> bool:
    """Whether a shard, or a whole test set (None), begins with the first test text."""
    return shard is None or shard.startswith("0-")


def gathered(shard: str) -> str:
    """The path into which the shards of a path pattern are gathered.

    The pattern is such as ``results/shards/flow/{model}/{task}/{seed}/{examples}.parquet``.
    """
    return shard.replace("results/shards/", "results/").replace("/{examples}", "")


def examples_of(shard: str | None, rows: "pl.DataFrame") -> list[int] | None:
    """The test texts of a shard, the same for all demonstration protocols.

    They are the values of column ``example``, increasing; None for all texts. The ``rows`` are
    samples or prompts of one task and seed, including fixed demonstrations.
    """
    if shard is None:
        return None
    first, last = (int(place) for place in shard.split("-"))
    fixed = rows.filter(demonstrations="fixed")
    return fixed["example"].unique().sort()[first:last].to_list()
