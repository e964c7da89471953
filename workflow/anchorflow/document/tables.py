"""docs/reference/data_dictionary.md, made from the tables' schemas so that the two agree.

``make docs`` writes it.
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from anchorflow.config.stages import files_of_tables
from anchorflow.document import ROOT
from anchorflow.document.markdown import page
from anchorflow.store.all_tables import TABLES

DICTIONARY_FILE = ROOT / "docs" / "reference" / "data_dictionary.md"
_SHARED_FROM = 3  # A column that so many tables describe alike is described once, at the top.


class Column(NamedTuple):
    """A column as the page describes it."""

    name: str
    kind: str
    unit: str
    description: str


class Section(NamedTuple):
    """A table as the page describes it."""

    name: str
    rows: str
    files: Sequence[str]
    keys: Container[str]
    shared: Sequence[Column]  # described at the top of the page
    earlier: Mapping[str, Sequence[Column]]  # by the table in whose section they are described
    own: Sequence[Column]


def data_dictionary(tables: Mapping[str, pa.Schema], files: Mapping[str, Sequence[str]]) -> str:
    """The text of the page: columns that many tables share, then a section for each table.

    Parameters
    ----------
    files : mapping
        Path patterns by table name.
    """
    shared = shared_columns(tables.values())
    return page(
        "data_dictionary.md",
        shared=shared,
        sections=_sections(tables, files, shared),
        names=_names,
        lines=_lines,
    )


def write() -> None:
    """Write docs/reference/data_dictionary.md."""
    DICTIONARY_FILE.write_text(data_dictionary(TABLES, files_of_tables()), encoding="utf-8")


def keys_of(schema: pa.Schema) -> list[str]:
    """The columns that together identify a table's rows."""
    return _of(schema, "keys").split()


def columns_of(schema: pa.Schema) -> list[Column]:
    """A table's columns, in order."""
    return [
        Column(field.name, _kind(field.type), _of(field, "unit"), _of(field, "description"))
        for field in schema
    ]


def shared_columns(schemas: Iterable[pa.Schema]) -> list[Column]:
    """What many tables describe alike, most frequent first; of a name, the most frequent only."""
    count = Counter(column for schema in schemas for column in columns_of(schema))
    found: dict[str, Column] = {}
    for column, times in count.most_common():
        if times >= _SHARED_FROM:
            found.setdefault(column.name, column)
    return list(found.values())


def _sections(
    tables: Mapping[str, pa.Schema], files: Mapping[str, Sequence[str]], shared: Sequence[Column]
) -> list[Section]:
    first: dict[Column, str] = {}
    for name, schema in tables.items():
        for column in columns_of(schema):
            first.setdefault(column, name)
    found = []
    for name, schema in tables.items():
        columns = columns_of(schema)
        earlier: dict[str, list[Column]] = {}
        for column in columns:
            if column not in shared and first[column] != name:
                earlier.setdefault(first[column], []).append(column)
        found.append(
            Section(
                name,
                _of(schema, "rows"),
                files[name],
                keys_of(schema),
                [column for column in columns if column in shared],
                earlier,
                [column for column in columns if column not in shared and first[column] == name],
            )
        )
    return found


def _of(schema: pa.Schema | pa.Field, entry: str) -> str:
    value: bytes = schema.metadata[entry.encode()]
    return value.decode()


def _names(columns: Iterable[Column], keys: Container[str]) -> str:
    return ", ".join(_name(column, keys) for column in columns)


def _lines(columns: Iterable[Column], keys: Container[str] = ()) -> list[list[str]]:
    return [[_name(each, keys), _type(each), each.description] for each in columns]


def _name(column: Column, keys: Container[str]) -> str:
    """A column's name, in bold if it is a key."""
    return f"**`{column.name}`**" if column.name in keys else f"`{column.name}`"


def _type(column: Column) -> str:
    """A column's type and unit; that of a dimensionless number is left out."""
    return f"{column.kind}, {column.unit}" if column.unit not in ("", "1") else column.kind


def _kind(kind: pa.DataType) -> str:
    """A column's type, as in "list of float32"."""
    if pa.types.is_list(kind):
        return f"list of {_kind(kind.value_type)}"
    return {"double": "float64", "float": "float32"}.get(str(kind), str(kind))
