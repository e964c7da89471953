"""docs/data_dictionary.md, made from the tables' schemas so that the two can't drift apart.

``make docs`` writes it.
"""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from anchorflow.config.stages import files_of_tables
from anchorflow.document import ROOT
from anchorflow.document.markdown import markdown_table
from anchorflow.store.all_tables import TABLES

DICTIONARY_FILE = ROOT / "docs" / "data_dictionary.md"

_INTRODUCTION = """# Data dictionary

<!-- Made from workflow/anchorflow/schemas/ by `make docs`. Edit the schemas, not this file. -->

Every table that a run writes: where its files lie, what a row is, and what its columns hold.

- `{model}`, `{task}` and `{seed}` in a path are those of the configuration; `worlds` is all random
  worlds. Files of a task with
  other label words have `{task}` as in `reviews+symbols`, and so has their column `task`.
- The **keys** together tell the rows of a table apart, over all files of one path. A null among
  them counts as a value. Only samples under `results/kernel` and `results/retrieval` need the
  path for the model too. Tables under several paths hold different prompts: see `demonstrations`
  below.
- The unit `1` stands for a number without a unit; no unit, for a name, an index or a text; `as
  mean`, for that of the column `mean`.
- The CSV files hold the rows of all models, with the same columns.

A Parquet file carries descriptions and units too, and says in its metadata what made it: `table`,
`rows`, `keys`, `schema_version`, `settings` (the part of the configuration and the model that its
values depend on) and `software` (versions). Its pages have checksums, which pyarrow checks; the
workflow refuses a damaged file.
"""


def data_dictionary(tables: Mapping[str, pa.Schema], files: Mapping[str, Sequence[str]]) -> str:
    """The text of docs/data_dictionary.md: an overview of all tables, then a section for each.

    Parameters
    ----------
    files : mapping
        Path patterns by table name.
    """
    overview = (
        [f"[{name}](#{name})", _of(schema, "rows"), _paths(files[name], "<br>")]
        for name, schema in tables.items()
    )
    parts = [_INTRODUCTION, markdown_table(["table", "rows", "files"], overview)]
    for name, schema in tables.items():
        keys = ", ".join(f"`{key}`" for key in keys_of(schema))
        parts += [
            f"## {name}\n",
            f"Rows: {_of(schema, 'rows')}. Keys: {keys}.\n",
            f"Files: {_paths(files[name], ', ')}\n",
            markdown_table(["column", "type", "unit", "description"], _fields(schema)),
        ]
    return "\n".join(parts)


def write() -> None:
    """Write docs/data_dictionary.md."""
    DICTIONARY_FILE.write_text(data_dictionary(TABLES, files_of_tables()), encoding="utf-8")


def keys_of(schema: pa.Schema) -> list[str]:
    """The columns that together tell a table's rows apart."""
    return _of(schema, "keys").split()


def _of(schema: pa.Schema | pa.Field, entry: str) -> str:
    value: bytes = schema.metadata[entry.encode()]
    return value.decode()


def _paths(patterns: Sequence[str], between: str) -> str:
    return between.join(f"`{pattern}`" for pattern in patterns)


def _fields(schema: pa.Schema) -> Iterator[list[str]]:
    for field in schema:
        yield [f"`{field.name}`", _kind(field.type), _of(field, "unit"), _of(field, "description")]


def _kind(kind: pa.DataType) -> str:
    """A column's type, as in "list of float32"."""
    if pa.types.is_list(kind):
        return f"list of {_kind(kind.value_type)}"
    return {"double": "float64", "float": "float32"}.get(str(kind), str(kind))
