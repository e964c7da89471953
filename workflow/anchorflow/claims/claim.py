"""Definition of a claim: its statement, its effect, its control, and its null.

An effect is a difference that is above 0 if the claim holds. Both sides of it are measured on the
same examples.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import polars as pl

from anchorflow.arrays import Array
from anchorflow.statistics.by_task import per_seed
from anchorflow.statistics.estimates import Estimate, SeedStatistic, estimate, unchanged

# Forms of a claim: as its paper states it, or stricter, so that not every network satisfies it.
PAPER, DISCRIMINATING = "paper", "discriminating"

UNTRAINED = "the same network, untrained"

COMPARED = (
    "interval: supported if the effect, its difference from the control and that from the null are "
    "above 0, after the correction for all claims; untrained too if only that from the null is at "
    "or below 0; not supported if another is; mixed if tasks are on both sides of 0"
)
QUARTILES = (
    "quartiles: supported if the anchors' upper one is below the lower one of what they are "
    "compared with, not supported if their lower one is not below its upper one"
)
ALL_TASKS = "quartiles: supported, or not, if it is so in every task that was timed"


class NotMeasured(Exception):  # noqa: N818 - an incomplete run is not an error
    """The run lacks the measurements of a claim; the message names them.

    ``remedy`` is the line of configuration with which a run has them; empty if there is none.
    ``table`` names a table that the run lacks, of which the claim knows that line.
    """

    def __init__(self, message: str, remedy: str = "", table: str = "") -> None:
        super().__init__(message)
        self.remedy, self.table = remedy, table


@dataclass(frozen=True)
class Run:
    """The measurements of one model and task, over all seeds."""

    task: str
    tables: Mapping[str, pl.DataFrame]  # by the names that claims list in READS
    variant: str  # of isolation
    temperature: float  # of the sentence encoder's kernel
    untrained: Mapping[str, "Run"] = field(default_factory=dict)  # by the name of the twin
    # The same tables with another label for every demonstration.
    shuffled: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    # Predictions with other label words, by the words' name, and all label words by name.
    worded: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    words: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def rows(self, table: str) -> pl.DataFrame:
        """All rows of a table."""
        if table not in self.tables:
            raise NotMeasured(f"the run has no table {table}", table=table)
        if self.tables[table].is_empty():
            raise NotMeasured("no prompt fits the model's context")
        return self.tables[table]

    def seeds(self, table: str) -> list[pl.DataFrame]:
        """The rows of each seed."""
        return list(per_seed(self.rows(table)))

    def by_seed(self, table: str) -> dict[int, pl.DataFrame]:
        """The rows of each seed, by its number."""
        return {int(rows["seed"][0]): rows for rows in self.seeds(table)}


@dataclass(frozen=True)
class Sampled:
    """A scalar effect as a statistic of each seed's texts; NaN in seeds that lack it.

    ``combined`` makes the effect, [..., 1], from the statistics' means over seeds, so that a share
    may be that of all seeds together: in one seed, what it is a share of may be hardly above 0.
    """

    by_seed: Mapping[int, SeedStatistic]
    combined: Callable[[Array], Array] = unchanged

    @classmethod
    def of_any(
        cls, seeds: Mapping[int, SeedStatistic], lacking: str, remedy: str = "", table: str = ""
    ) -> "Sampled":
        """An effect that some seeds have; else it is not measured."""
        if not seeds:
            raise NotMeasured(lacking, remedy, table)
        return cls(seeds)

    @property
    def effect(self) -> Estimate:
        """The mean over the seeds that have a value, or what is combined from such means."""
        return estimate(list(self.by_seed.values())).map(self.combined)

    @property
    def examples(self) -> int:
        """Examples, or pairs of the same example, summed over seeds."""
        return sum(len(texts) for _, texts in self.by_seed.values())

    @property
    def texts(self) -> int:
        """Distinct texts among the examples."""
        return len({int(text) for _, texts in self.by_seed.values() for text in texts})


@dataclass(frozen=True)
class Timed:
    """An effect with bounds from the quartiles of timings."""

    value: float
    low: float
    high: float
    runs: int


# Computes an effect; where several claims compute theirs alike, a declaration with fields.
Effect = Callable[[Run], Sampled | Timed]


class Control(NamedTuple):
    """What an effect has to exceed.

    ``measure`` is None where the effect is itself the difference from the control.
    """

    description: str
    measure: Effect | None = None

    @classmethod
    def subtracted(cls, description: str) -> "Control":
        """A control that the effect is the difference from."""
        return cls(f"{description}, already subtracted in the effect")


class Curve(NamedTuple):
    """Rows of a summary: one per layer, or one per layer and head, reduced to the best head."""

    name: str
    table: str  # of flow, attention, confusion, or kernel
    rows: Mapping[str, str]  # column values that select the rows


class Depth(NamedTuple):
    """The quantities that a claim compares, by layer."""

    measure: str
    curves: tuple[Curve, ...]


class Isolated(NamedTuple):
    """What is retained with tokens isolated in the first or last layers."""

    name: str
    positions: str
    sides: tuple[str, ...]


@dataclass(frozen=True)
class Claim:
    """A claim: its statement, its source, and the effect that decides it."""

    name: str
    statement: str
    source: str  # for example "[A] §3.2, Table 2"; claims are ordered by source
    compared: str
    unit: str
    measure: Effect
    control: Control
    null: str = UNTRAINED  # or what the control already removes; empty if there is none
    form: str = PAPER
    undefined: str = "no test text has a value"  # why the effect may be undefined
    rule: str = COMPARED
    over_depth: Depth | tuple[Isolated, ...] | None = None  # None if it is not about layers
    figure: str = ""  # the analysis whose figure has the quantities
    measured_in: str = ""  # the analysis that measures what is compared, if it is another one
    question: str = ""  # on the first page; empty for claims that are not on it
    # The name of a claim that is less strict: what surprises is that only that one holds.
    stricter_than: str = ""
    # Lines of configuration that ask for tables which runs may leave out.
    asked_for: Mapping[str, str] = field(default_factory=dict)

    @property
    def measured_by(self) -> str:
        """The analysis that measures what the claim compares."""
        return self.measured_in or self.figure

    @property
    def family(self) -> str:
        """Paper and section, as in ``[A] §3.2``."""
        return self.source.partition(",")[0]
