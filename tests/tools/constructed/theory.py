"""Measured distances of kernel regression, made up, and their summary."""

import polars as pl

from anchorflow.analyses.theory import THEORY
from anchorflow.analyses.theory.summarize import summarize_theory
from constructed.rows import frame

COUNTS = (1, 4, 16, 64)
KERNELS: tuple[tuple[str, float | None, int | None], ...] = (
    ("theorem", 1e-6, None),
    ("permuted", 1e-6, None),
    ("theorem", None, 20),
    ("dot_product", None, None),
    ("prediction", None, None),
    ("nearest", None, None),
)


def measured(remains: float = 0.1, worlds: int = 3) -> pl.DataFrame:
    """Distances of ``remains`` + 1/√n in the mean over worlds, and half as far for eq. 9.

    Worlds differ from their mean by -0.02, 0, and 0.02.
    """
    rows = [
        {
            "world": world,
            "demonstrations": n,
            "kernel": kernel,
            "ridge": ridge,
            "rank": rank,
            "distance": (0.5 if kernel == "prediction" else 1)
            * (remains + n**-0.5 + 0.02 * (world - (worlds - 1) / 2)),
            "accuracy": 1 - n**-0.5 / 2,
            "improper": 0.25,
            "prompts": 8,
        }
        for world in reversed(range(worlds))
        for kernel, ridge, rank in KERNELS
        for n in COUNTS
    ]
    return frame(rows, THEORY)


def summary() -> pl.DataFrame:
    """The summary of three worlds."""
    return summarize_theory(measured(), 0.9)
