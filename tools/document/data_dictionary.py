"""docs/reference/data_dictionary.md, made from the tables' schemas so that the two agree."""

import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from anchorflow.config.stages import files_of_tables
from anchorflow.schemas.fields import PARTS_OF_CHANGE
from anchorflow.store.all_tables import TABLES
from tools.document.markdown import page

_SHARED_FROM = 3  # A column that so many tables describe alike is described once, at the top.
_QUERIED = ("samples", "predictions", "flow")  # by the documented queries, or by Run.examples
_FROM_PATH = ("model", "task", "seed")
_OF_SUMMARIES = ("model", "task", "mean", "low", "high", "examples", "texts", "seeds")
_PARTS = "with its two parts; means of label_mass and in_labels"  # explained at the top


class Column(NamedTuple):
    """A column as the page describes it."""

    name: str
    kind: str
    unit: str
    description: str


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
    full = {
        name: _with_descriptions(schema)
        for name, schema in TABLES.items()
        if in_full(name, files[name])
    }
    shared = shared_columns(full.values())
    return page(
        "data_dictionary.md",
        shared=shared,
        sections=_sections(full, files, shared),
        listed=[
            [
                f"`{name}`",
                _of(schema, "rows").removeprefix("one per "),
                _keys_in_list(schema),
                ", ".join(f"`{pattern}`" for pattern in files[name]),
            ]
            for name, schema in TABLES.items()
            if name not in full
        ],
        names=_names,
        lines=_lines,
    )


def in_full(name: str, files: Iterable[str]) -> bool:
    """Whether the page describes a table's columns: those in CSV files, and what queries use."""
    return name in _QUERIED or any(file.endswith(".csv") for file in files)


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
        usual = _OF_SUMMARIES if set(_OF_SUMMARIES) <= set(schema.names) else ()
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
                [column for column in columns if column in shared and column.name not in usual],
                earlier,
                [column for column in columns if column not in shared and first[column] == name],
            )
        )
    return found


def _with_descriptions(schema: pa.Schema) -> pa.Schema:
    """A schema whose columns are described in full, not "as in" a table that is only listed."""

    def described(field: pa.Field) -> pa.Field:
        text = _of(field, "description").replace(PARTS_OF_CHANGE, _PARTS)
        if found := re.match(r"as in the table (\w+)", text):
            text = _of(TABLES[found[1]].field(field.name), "description") + text[found.end() :]
        return field.with_metadata({**field.metadata, b"description": text.encode()})

    return pa.schema([described(field) for field in schema], schema.metadata)


def _keys_in_list(schema: pa.Schema) -> str:
    return ", ".join(f"`{key}`" for key in keys_of(schema) if key not in _FROM_PATH)


def _of(schema: pa.Schema | pa.Field, entry: str) -> str:
    value: bytes = schema.metadata[entry.encode()]
    return value.decode()


def _names(columns: Iterable[Column], keys: Container[str]) -> str:
    return ", ".join(_name(column, keys) for column in columns)


def _lines(columns: Iterable[Column], keys: Container[str] = ()) -> list[list[str]]:
    return [[_name(column, keys), _type(column), column.description] for column in columns]


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
