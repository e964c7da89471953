"""The declaration of a table: its columns with types, meanings and units.

Files, data frames and the data dictionary follow from it. It names types as Arrow does and imports
no library, so that rules can read it.
"""

from dataclasses import dataclass, field
from typing import Any

# Metadata of entries that say something to readers, and reach no number.
WORDS: Any = {"words": True}


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


def table(name: str, rows: str, *columns: Column, keys: str) -> Table:
    """A table with its keys in one string, separated by spaces."""
    return Table(name, rows, columns, tuple(keys.split()))
