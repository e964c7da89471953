"""docs/reference/data_dictionary.md, made from the tables' schemas.

``make docs`` writes it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from anchorflow.config.stages import files_of_tables
from anchorflow.document import ROOT
from anchorflow.document.markdown import page
from anchorflow.store.all_tables import TABLES

DICTIONARY_FILE = ROOT / "docs" / "reference" / "data_dictionary.md"
_OFTEN = 2  # tables in which the same column is described once for all of them


def data_dictionary(tables: Mapping[str, pa.Schema], files: Mapping[str, Sequence[str]]) -> str:
    """The text of the page: columns that tables share, all tables, then a section for each.

    Parameters
    ----------
    files : mapping
        Path patterns by table name.
    """
    shared = shared_columns(tables.values())
    return page(
        "data_dictionary.md",
        shared=[_row(field) for field in shared],
        tables=tables,
        files=files,
        of=_of,
        keys_of=keys_of,
        quoted=_quoted,
        own=lambda schema: [_row(field) for field in schema if not _is_in(field, shared)],
        common=lambda schema: [field.name for field in schema if _is_in(field, shared)],
    )


def shared_columns(schemas: Iterable[pa.Schema]) -> list[pa.Field]:
    """Columns that several tables have with the same description, by name.

    Of several descriptions of a name, the most frequent one.
    """
    fields = [field for schema in schemas for field in schema]
    counts = Counter(_known(field) for field in fields)
    first = {_known(field): field for field in reversed(fields)}
    of_names: dict[str, pa.Field] = {}
    for known, count in counts.most_common():
        if count >= _OFTEN:
            of_names.setdefault(first[known].name, first[known])
    return [of_names[name] for name in sorted(of_names)]


def _known(field: pa.Field) -> tuple[str, ...]:
    return field.name, str(field.type), _of(field, "unit"), _of(field, "description")


def _is_in(field: pa.Field, shared: Sequence[pa.Field]) -> bool:
    return any(_known(field) == _known(other) for other in shared)


def write() -> None:
    """Write docs/reference/data_dictionary.md."""
    DICTIONARY_FILE.write_text(data_dictionary(TABLES, files_of_tables()), encoding="utf-8")


def keys_of(schema: pa.Schema) -> list[str]:
    """The columns that together identify a table's rows."""
    return _of(schema, "keys").split()


def _of(schema: pa.Schema | pa.Field, entry: str) -> str:
    value: bytes = schema.metadata[entry.encode()]
    return value.decode()


def _quoted(names: Sequence[str], between: str) -> str:
    return between.join(f"`{name}`" for name in names)


def _row(field: pa.Field) -> list[str]:
    return [f"`{field.name}`", _kind(field.type), _of(field, "unit"), _of(field, "description")]


def _kind(kind: pa.DataType) -> str:
    """A column's type, as in "list of float32"."""
    if pa.types.is_list(kind):
        return f"list of {_kind(kind.value_type)}"
    return {"double": "float64", "float": "float32"}.get(str(kind), str(kind))
