"""Named random draws: draws for one purpose never affect those for another."""

import zlib

import numpy as np
import polars as pl


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
