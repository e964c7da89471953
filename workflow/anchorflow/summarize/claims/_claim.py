"""Definition of a claim: its statement, its effect, and the curves plotted for it over depth.

An effect is a difference that is above 0 if the claim holds. Both sides are measured on the same
examples, so that resampling keeps them paired.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl

from anchorflow.arrays import Array
from anchorflow.random_draws import generator
from anchorflow.summarize.by_task import per_seed
from anchorflow.summarize.statistics import Estimate

INTERVAL = "bootstrap interval: supported if low > 0, not supported if high <= 0"
QUARTILES = (
    "quartiles: supported if the anchors' upper one is below the full prompts' lower one, not "
    "supported if the anchors' lower one is not below the full prompts' upper one"
)
ALL_TASKS = "quartiles: supported, or not, if it is so in every task that was timed"


class NotTested(Exception):  # noqa: N818 - an incomplete run is not an error
    """The run lacks what a claim is about; the message states what."""


@dataclass(frozen=True)
class Run:
    """The measurements of one model and task, over all seeds."""

    task: str
    tables: Mapping[str, pl.DataFrame]  # by the names that claims list in READS
    variant: str  # of isolation
    replicates: int

    def rows(self, table: str) -> pl.DataFrame:
        """All rows of a table.

        Raises
        ------
        NotTested
            If the run has no such table, or the table has no rows.
        """
        if table not in self.tables:
            raise NotTested(f"the run has no table {table}")
        if self.tables[table].is_empty():
            raise NotTested("no prompt fits the model's context")
        return self.tables[table]

    def seeds(self, table: str) -> list[pl.DataFrame]:
        """The rows of each seed.

        Raises
        ------
        NotTested
            As :meth:`rows`.
        """
        return list(per_seed(self.rows(table)))

    def random(self, *purpose: str | int) -> np.random.Generator:
        """A generator for this task, equal for all claims so that they share resampled examples."""
        return generator(0, "claims", self.task, *purpose)


def unchanged(values: Array) -> Array:
    """The values themselves, for effects that are means over seeds."""
    return values


@dataclass(frozen=True)
class Sampled:
    """The values behind an effect, with bootstrap replicates over seeds and examples."""

    estimate: Estimate  # of K values, to be averaged over tasks
    examples: int
    seeds: int
    made: Callable[[Array], Array] = unchanged  # maps [..., K] to the effect, [..., 1]

    @property
    def effect(self) -> Estimate:
        """The effect, a single value."""
        return self.estimate.map(self.made)


@dataclass(frozen=True)
class Timed:
    """An effect with bounds from the quartiles of timings, without bootstrap."""

    value: float
    low: float
    high: float
    runs: int


class Curve(NamedTuple):
    """Rows of a summary: one per layer, or one per layer and head, reduced to the best head."""

    name: str
    table: str  # flow, deep, confusion, or heads
    rows: Mapping[str, str]  # column values that select the rows


class Depth(NamedTuple):
    """The quantities that a claim compares, by layer."""

    measure: str
    curves: tuple[Curve, ...]


class Isolated(NamedTuple):
    """Label loyalty with tokens isolated in the first or last layers."""

    name: str
    positions: str
    sides: tuple[str, ...]


class Claim(NamedTuple):
    """A claim: its statement, its source, and the effect that decides it."""

    name: str
    statement: str
    source: str  # for example "[A] §3.2, Table 2"; claims are ordered by source
    compared: str
    unit: str
    measure: Callable[[Run], Sampled | Timed]
    undefined: str = "no example has a value"  # why the effect may be undefined
    rule: str = INTERVAL
    bounded: bool = True  # whether the effect always lies between -1 and 1
    over_depth: Depth | tuple[Isolated, ...] | None = None  # None if it is not about layers
    place: int = 0  # order among claims of the same source; ties are ordered by file name
