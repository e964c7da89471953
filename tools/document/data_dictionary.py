"""docs/reference/data_dictionary.md, made from the tables' declarations so that the two agree."""

import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from anchorflow.config.stages import files_of_tables
from anchorflow.config.table import Column, Measure, SummaryTable, Table
from anchorflow.schemas.summaries import words_of
from anchorflow.store.all_tables import TABLES
from tools.document.markdown import page

_SHARED_FROM = 3  # A column that so many tables describe alike is described once, at the top.
_QUERIED = ("samples", "predictions", "flow")  # by the documented queries, or by Run.examples
_FROM_PATH = ("model", "task", "seed")
_OF_SUMMARIES = ("model", "task", "mean", "low", "high", "examples", "texts", "seeds")


class Section(NamedTuple):
    """A table that the page describes in full."""

    name: str
    rows: str
    files: Sequence[str]
    keys: Container[str]
    shared: Sequence[Column]  # described at the top of the page, without what all summaries have
    earlier: Mapping[str, Sequence[Column]]  # by the table in whose section they are described
    own: Sequence[Column]


def data_dictionary() -> str:
    """The text of the page: columns that many tables share, a section for each of some, a list."""
    files = files_of_tables()
    measures = shared_measures(TABLES.values())
    full = {
        name: _with_descriptions(table, measures)
        for name, table in TABLES.items()
        if in_full(name, files[name])
    }
    shared = shared_columns(full.values())
    return page(
        "data_dictionary.md",
        shared=shared,
        measures=[[f"`{measure.name}`", measure.words] for measure in measures],
        sections=_sections(full, files, shared),
        listed=[
            [
                f"`{name}`",
                table.rows.removeprefix("one per "),
                ", ".join(f"`{key}`" for key in table.keys if key not in _FROM_PATH),
                ", ".join(f"`{pattern}`" for pattern in files[name]),
            ]
            for name, table in TABLES.items()
            if name not in full
        ],
        names=_names,
        lines=_lines,
    )


def in_full(name: str, files: Iterable[str]) -> bool:
    """Whether the page describes a table's columns: those in CSV files, and what queries use."""
    return name in _QUERIED or any(file.endswith(".csv") for file in files)


def shared_columns(tables: Iterable[Table]) -> list[Column]:
    """What many tables describe alike, most frequent first; of a name, the most frequent only."""
    count = Counter(column for table in tables for column in table.columns)
    found: dict[str, Column] = {}
    for column, times in count.most_common():
        if times >= _SHARED_FROM:
            found.setdefault(column.name, column)
    return list(found.values())


def shared_measures(tables: Iterable[Table]) -> list[Measure]:
    """The measures that several summaries have, by their first occurrence."""
    summaries = [table for table in tables if isinstance(table, SummaryTable)]
    count = Counter(replace(m, in_full=False) for table in summaries for m in table.measures)
    return [measure for measure, times in count.items() if times > 1]


def _sections(
    tables: Mapping[str, Table], files: Mapping[str, Sequence[str]], shared: Sequence[Column]
) -> list[Section]:
    first: dict[Column, str] = {}
    for name, table in tables.items():
        for column in table.columns:
            first.setdefault(column, name)
    found = []
    for name, table in tables.items():
        usual = _OF_SUMMARIES if set(_OF_SUMMARIES) <= set(table.names) else ()
        earlier: dict[str, list[Column]] = {}
        for column in table.columns:
            if column not in shared and first[column] != name:
                earlier.setdefault(first[column], []).append(column)
        found.append(
            Section(
                name,
                table.rows,
                files[name],
                table.keys,
                [
                    column
                    for column in table.columns
                    if column in shared and column.name not in usual
                ],
                earlier,
                [c for c in table.columns if c not in shared and first[c] == name],
            )
        )
    return found


def _with_descriptions(table: Table, shared: Sequence[Measure]) -> Table:
    """A table whose columns are described in full, not "as in" a table that is only listed.

    Of a summary's measures, those that others share are only named.
    """

    def described(column: Column) -> Column:
        text = column.words
        if isinstance(table, SummaryTable) and column.name == "measure":
            own = [m for m in table.measures if replace(m, in_full=False) not in shared]
            named = [f"`{measure.name}`" for measure in table.measures if measure not in own]
            about = text.removesuffix(words_of(table.measures))
            of_shared = f"shared measures {', '.join(named)}" if named else ""
            text = about + "; ".join(filter(None, (words_of(own), of_shared)))
        if found := re.match(r"as in the table (\w+)", text):
            (other,) = (c for c in TABLES[found[1]].columns if c.name == column.name)
            text = other.words + text[found.end() :]
        return replace(column, words=text)

    return replace(table, columns=tuple(described(column) for column in table.columns))


def _names(columns: Iterable[Column], keys: Container[str]) -> str:
    return ", ".join(_name(column, keys) for column in columns)


def _lines(columns: Iterable[Column], keys: Container[str] = ()) -> list[list[str]]:
    return [[_name(column, keys), _type(column), column.words] for column in columns]


def _name(column: Column, keys: Container[str]) -> str:
    """A column's name, in bold if it is a key."""
    return f"**`{column.name}`**" if column.name in keys else f"`{column.name}`"


def _type(column: Column) -> str:
    """A column's type and unit; that of a dimensionless number is left out."""
    kind = re.sub(r"list<(\w+)>", r"list of \1", column.kind)
    return f"{kind}, {column.unit}" if column.unit not in ("", "1") else kind
