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

    Parameters
    ----------
    test_examples : int
        Requested test texts; if a task has fewer, its last shards are shorter or empty.
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

    Parameters
    ----------
    shard : str
        Such as ``results/shards/flow/{model}/{task}/{seed}/{examples}.parquet``.
    """
    return shard.replace("results/shards/", "results/").replace("/{examples}", "")


def examples_of(shard: str | None, rows: "pl.DataFrame") -> list[int] | None:
    """The test texts of a shard, the same for all demonstration protocols.

    Parameters
    ----------
    shard : str, optional
        Its name; None for all test texts, which returns None.
    rows : DataFrame
        ``SAMPLES`` or ``PROMPTS`` of one task and seed, including fixed demonstrations.

    Returns
    -------
    list of int, optional
        Column ``example`` of the shard's texts, in increasing order.
    """
    if shard is None:
        return None
    first, last = (int(place) for place in shard.split("-"))
    fixed = rows.filter(demonstrations="fixed")
    return fixed["example"].unique().sort()[first:last].to_list()
