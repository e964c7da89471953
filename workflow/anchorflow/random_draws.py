"""Named random draws: draws for one purpose never affect those for another."""

import zlib
from collections.abc import Callable

import numpy as np
import polars as pl

from anchorflow.config.cell_names import task_of

# From the words of a purpose to its generator, for one task and seed.
Draw = Callable[..., np.random.Generator]


def generator(seed: int, *purpose: str | int) -> np.random.Generator:
    """A generator determined by the seed and the words of its purpose alone."""
    # Not hash(), which differs between processes.
    words = [w if isinstance(w, int) else zlib.crc32(w.encode()) for w in purpose]
    return np.random.default_rng(np.random.SeedSequence([seed, *words]))


def halves(examples: pl.Series, seed: int, first: float = 0.5) -> pl.DataFrame:
    """A random split of the examples: columns ``example`` and ``half`` (0 or 1).

    ``first`` is the share of part 0, rounded to whole examples. Neither part is empty if there are
    at least two examples.
    """
    distinct = examples.unique().sort()
    order = generator(seed, "halves").permutation(len(distinct))
    cut = min(max(round(first * len(distinct)), 1), len(distinct) - 1)
    split = order % 2 if first == 0.5 else (order >= cut).astype(int)
    return pl.DataFrame({"example": distinct, "half": split})


def drawn_texts(rows: pl.DataFrame, number: int | None) -> pl.DataFrame:
    """The rows of ``number`` test texts of each task and seed; all rows for None.

    More texts include fewer ones: they are the first in a random order, which is the same for all
    models and label words.
    """
    if number is None:
        return rows
    keys = ["task", "seed", "example"]
    texts = rows.select(keys).unique().sort(keys)
    order = [
        generator(seed, task_of(task), "order of texts", example).random()
        for task, seed, example in texts.iter_rows()
    ]
    first = texts.with_columns(order=pl.Series(order, dtype=pl.Float64)).sort("order")
    some = first.group_by("task", "seed").head(number)
    return rows.join(some, on=keys, how="semi", maintain_order="left")
