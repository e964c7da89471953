"""Large test sets in shards: each job measures some of the test texts of a model, task and seed.

A shard is named by the places of its test texts in their order, as in ``100-200``: from the first
to the one before the last. What all prompts of a cell share is taken from all of them in every
shard, so that no number depends on the shards.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the rules import this module, and every job reads the rules
    import polars as pl


def shard_names(test_examples: int, examples_per_shard: int | None) -> list[str]:
    """The shards of a test set; none if one job measures all of it.

    Parameters
    ----------
    test_examples : int
        Test texts asked for; if a task has fewer, its last shards are shorter or empty.
    """
    if examples_per_shard is None or examples_per_shard >= test_examples:
        return []
    firsts = range(0, test_examples, examples_per_shard)
    return [f"{first}-{min(first + examples_per_shard, test_examples)}" for first in firsts]


def is_first(shard: str | None) -> bool:
    """Whether a shard, or a whole test set (None), begins with the first test text."""
    return shard is None or shard.startswith("0-")


def gathered(shard: str) -> str:
    """Where the shards of a path pattern are gathered: its file without shards.

    Parameters
    ----------
    shard : str
        As in ``results/shards/saliency/{model}/{task}/{seed}/{examples}.parquet``.
    """
    return shard.replace("results/shards/", "results/").replace("/{examples}", "")


def examples_of(shard: str | None, rows: "pl.DataFrame") -> list[int] | None:
    """The test texts that a shard measures, the same whatever the demonstrations are.

    Parameters
    ----------
    shard : str, optional
        Its name; None for all test texts, which makes the result None too.
    rows : DataFrame
        ``tables.SAMPLES`` or ``tables.PROMPTS`` of one task and seed, with fixed demonstrations
        among others.

    Returns
    -------
    list of int, optional
        Column ``example`` of the shard's texts, increasing.
    """
    if shard is None:
        return None
    first, last = (int(place) for place in shard.split("-"))
    fixed = rows.filter(demonstrations="fixed")
    return fixed["example"].unique().sort()[first:last].to_list()
