"""docs/data_dictionary.md, made from the tables' schemas so that the two can't drift apart.

``make docs`` writes it.
"""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from anchorflow.config.stages import files_of_tables
from anchorflow.document import ROOT
from anchorflow.document.markdown import page
from anchorflow.store.all_tables import TABLES

DICTIONARY_FILE = ROOT / "docs" / "data_dictionary.md"


def data_dictionary(tables: Mapping[str, pa.Schema], files: Mapping[str, Sequence[str]]) -> str:
    """The text of docs/data_dictionary.md: an overview of all tables, then a section for each.

    Parameters
    ----------
    files : mapping
        Path patterns by table name.
    """
    overview = [
        [f"[{name}](#{name})", _of(schema, "rows"), _quoted(files[name], "<br>")]
        for name, schema in tables.items()
    ]
    return page(
        "data_dictionary.md",
        overview=overview,
        tables=tables,
        files=files,
        of=_of,
        keys_of=keys_of,
        quoted=_quoted,
        columns=_columns,
    )


def write() -> None:
    """Write docs/data_dictionary.md."""
    DICTIONARY_FILE.write_text(data_dictionary(TABLES, files_of_tables()), encoding="utf-8")


def keys_of(schema: pa.Schema) -> list[str]:
    """The columns that together identify a table's rows."""
    return _of(schema, "keys").split()


def _of(schema: pa.Schema | pa.Field, entry: str) -> str:
    value: bytes = schema.metadata[entry.encode()]
    return value.decode()


def _quoted(names: Sequence[str], between: str) -> str:
    return between.join(f"`{name}`" for name in names)


def _columns(schema: pa.Schema) -> Iterator[list[str]]:
    for field in schema:
        yield [f"`{field.name}`", _kind(field.type), _of(field, "unit"), _of(field, "description")]


def _kind(kind: pa.DataType) -> str:
    """A column's type, as in "list of float32"."""
    if pa.types.is_list(kind):
        return f"list of {_kind(kind.value_type)}"
    return {"double": "float64", "float": "float32"}.get(str(kind), str(kind))
