"""Named random draws: one purpose's draws never shift another's."""

import zlib

import numpy as np


def generator(seed: int, *purpose: str | int) -> np.random.Generator:
    """A generator that depends on the seed and the words of its purpose, and on nothing else."""
    words = [w if isinstance(w, int) else zlib.crc32(w.encode()) for w in purpose]
    return np.random.default_rng(np.random.SeedSequence([seed, *words]))
