"""Named random draws: one purpose's draws never shift another's."""

import zlib

import numpy as np
import polars as pl


def generator(seed: int, *purpose: str | int) -> np.random.Generator:
    """A generator that depends on the seed and the words of its purpose, and on nothing else."""
    words = [w if isinstance(w, int) else zlib.crc32(w.encode()) for w in purpose]
    return np.random.default_rng(np.random.SeedSequence([seed, *words]))


def halves(examples: pl.Series, seed: int) -> pl.DataFrame:
    """Columns ``example`` and ``half``, 0 or 1, drawn for a seed."""
    distinct = examples.unique().sort()
    order = generator(seed, "halves").permutation(len(distinct))
    return pl.DataFrame({"example": distinct, "half": order % 2})
