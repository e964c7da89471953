"""The declaration of a table: its columns with types, meanings and units.

Files, data frames and the data dictionary follow from it. It names types as Arrow does and imports
no library, so that rules can read it.
"""

from dataclasses import dataclass, field
from math import inf
from typing import Any

# Metadata of entries that say something to readers, and reach no number.
WORDS: Any = {"words": True}

# Least and greatest possible values of measures, within which their intervals end.
ANY, SIZE, SHARE = (-inf, inf), (0.0, inf), (0.0, 1.0)
CORRELATION = DIFFERENCE = (-1.0, 1.0)  # a change of a share
AT_MOST_ALL = (-inf, 1.0)


@dataclass(frozen=True)
class Column:
    """One column; ``kind`` is a type such as ``int32``, or ``list<int32>``."""

    name: str
    kind: str
    words: str = field(metadata=WORDS)
    unit: str = field(default="", metadata=WORDS)


@dataclass(frozen=True)
class Table:
    """A table; ``keys`` are the columns, in order, that together identify a row."""

    name: str
    rows: str = field(metadata=WORDS)  # what a row stands for, as in "one per (layer, head)"
    columns: tuple[Column, ...]
    keys: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """The columns' names, in order."""
        return [column.name for column in self.columns]


@dataclass(frozen=True)
class Measure:
    """A measure of summaries, between ``bounds``, within which its intervals end."""

    name: str
    words: str = field(metadata=WORDS)
    bounds: tuple[float, float] = ANY
    in_full: bool = False  # not in tables for reading


@dataclass(frozen=True)
class SummaryTable(Table):
    """A table with one row per task, setting and measure."""

    settings: tuple[str, ...] = ()
    measures: tuple[Measure, ...] = ()

    @property
    def measured(self) -> list[str]:
        """The measures' names, in order."""
        return [measure.name for measure in self.measures]

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """Least and greatest possible value by measure."""
        return {measure.name: measure.bounds for measure in self.measures}


def table(name: str, rows: str, *columns: Column, keys: str) -> Table:
    """A table with its keys in one string, separated by spaces."""
    return Table(name, rows, columns, tuple(keys.split()))
