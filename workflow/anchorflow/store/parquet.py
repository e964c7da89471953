"""Typed Parquet files: written atomically, with checksums of pages that are checked in reading.

Every file carries the table's name and schema version, the settings that its values depend on, and
the versions of the software that computed them.
"""

import contextlib
import hashlib
import importlib.metadata
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from anchorflow.config.errors import InputError
from anchorflow.config.table import Table
from anchorflow.schemas.frames import arrow_schema
from anchorflow.store.replacing import replacing

SCHEMA_VERSION = 1
_SEAL = b"SHA-256 without this and the digest: "
REMEDY = "delete it and run again to rebuild it."
_SOFTWARE = (
    *("anchorflow", "torch", "transformers", "tokenizers", "sentence-transformers"),
    *("numpy", "scipy", "scikit-learn", "polars", "pyarrow"),
)


def software_versions() -> dict[str, str]:
    """Versions of this package and of those that its numbers depend on."""
    versions = {}
    for name in _SOFTWARE:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


def write_table(
    path: str | Path,
    of: Table,
    columns: Mapping[str, Sequence[Any] | Any],
    settings: Mapping[str, Any],
) -> None:
    """Write ``columns`` as one Parquet file with the schema's types and metadata.

    ``settings`` are the slice of the configuration, and the model's identity, that the values
    depend on.
    """
    schema = arrow_schema(of)
    if set(columns) != set(schema.names):
        raise ValueError(f"columns {sorted(columns)} are not those of the schema {schema.names}")
    arrays = [_as_array(columns[field.name], field.type) for field in schema]
    metadata = {
        **schema.metadata,
        "schema_version": str(SCHEMA_VERSION),
        "settings": json.dumps(settings, ensure_ascii=False),
        "software": json.dumps(software_versions()),
    }
    table = pa.table(arrays, schema=schema.with_metadata(metadata))
    with replacing(path) as temporary, sealed_writer(temporary, table.schema) as writer:
        rows = rows_per_group(schema)
        for start in range(0, max(1, len(table)), rows):
            writer.write_table(table.slice(start, rows).combine_chunks())


def rows_per_group(schema: pa.Schema) -> int:
    """Rows per row group, fewer for a table with lists, so that a group fits into memory."""
    return 2**15 if any(pa.types.is_nested(field.type) for field in schema) else 2**20


def table_writer(path: str | Path | BinaryIO, schema: pa.Schema) -> pq.ParquetWriter:
    """The writer of every table, in row groups of one chunk each.

    The bytes then do not depend on how rows were split in memory.
    """
    return pq.ParquetWriter(
        path, schema, compression="zstd", version="2.6", write_page_checksum=True
    )


@contextlib.contextmanager
def sealed_writer(path: str | Path, schema: pa.Schema) -> Iterator[pq.ParquetWriter]:
    """A :func:`table_writer` of a file with a digest of all its bytes, between pages and footer.

    Checksums of pages leave out the pages' headers, which say how many values a page has, and the
    footer has none. Readers of Parquet look at neither side of the footer, so they skip the digest.
    """
    with table_writer(path, schema) as writer:
        yield writer
    with open(path, "r+b") as file:
        start = _footer_start(file)
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256").digest()
        file.seek(start)
        footer = file.read()
        file.seek(start)
        file.write(_SEAL + digest + footer)


def _footer_start(file: BinaryIO) -> int:
    """Where a Parquet file's footer begins, whose length is before the last four bytes."""
    file.seek(-8, os.SEEK_END)
    return file.tell() - int.from_bytes(file.read(4), "little")


def _check_seal(path: str | Path) -> None:
    """Raise ValueError if a file's bytes are not those that :func:`sealed_writer` wrote."""
    with open(path, "rb") as file:
        content = file.read()
    place = content.rfind(_SEAL)
    if place < 0:
        return  # of an earlier version
    begin, end = content[:place], content[place + len(_SEAL) :]
    if hashlib.sha256(begin + end[32:]).digest() != end[:32]:
        raise ValueError("its content is not the one that was written")


def _as_array(values: Any, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """Arrow's own arrays are cast directly: converting them again would go value by value."""
    if isinstance(values, pa.ChunkedArray):
        return values.cast(kind)
    return pa.array(values, type=kind)


def write_frame(
    path: str | Path, table: Table, frame: pl.DataFrame, settings: Mapping[str, Any]
) -> None:
    """Write a data frame whose columns are the schema's; see :func:`write_table`."""
    arrow = frame.select(table.names).to_arrow()
    write_table(path, table, {name: arrow.column(name) for name in table.names}, settings)


def read_table(path: str | Path, table: Table) -> pl.DataFrame:
    """Read one Parquet file of this project and check that it holds the expected table."""
    schema = arrow_schema(table)
    with table_file(path, f"{table.name} table") as file:
        found = file.read()
    check_schema(path, found.schema, schema)
    frame = pl.from_arrow(pa.Table.from_arrays(found.columns, schema=schema))
    assert isinstance(frame, pl.DataFrame)
    return frame


@contextlib.contextmanager
def table_file(path: str | Path, what: str) -> Iterator[pq.ParquetFile]:
    """Open a file that this project wrote, for a block that only reads it."""
    try:
        _check_seal(path)  # first, since a damaged footer can end the process
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            if b"table" not in (file.schema_arrow.metadata or {}):
                raise ValueError("it does not say of which table")
            yield file
    except FileNotFoundError:
        raise InputError(f"{path}: the {what} is missing; run the workflow to build it.") from None
    except (InputError, MemoryError):
        raise
    except (OSError, ValueError, pa.ArrowException):
        raise InputError(
            f"{path}: damaged, or not a table that this workflow wrote; {REMEDY}"
        ) from None


def check_schema(path: str | Path, found: pa.Schema, schema: pa.Schema) -> None:
    """Check that a file's schema, as read, is that of the expected table."""
    metadata = found.metadata or {}
    if metadata.get(b"table") != schema.metadata[b"table"] or not found.equals(schema):
        raise InputError(
            f"{path}: its columns are not those of the {_name(schema)} table; {REMEDY}"
        )
    if metadata.get(b"schema_version") != str(SCHEMA_VERSION).encode():
        raise InputError(
            f"{path}: written with another version of the {_name(schema)} table; {REMEDY}"
        )


def _name(schema: pa.Schema) -> str:
    name: bytes = schema.metadata[b"table"]
    return name.decode()


def read_tables(paths: Sequence[str | Path], table: Table) -> pl.DataFrame:
    """Read and concatenate several files of one table; see :func:`read_table`."""
    return pl.concat([read_table(path, table) for path in paths])


def read_metadata(path: str | Path) -> dict[bytes, bytes]:
    """The metadata of a file of this project: ``table``, ``settings``, ``software`` and so on."""
    with table_file(path, "table") as file:
        metadata: dict[bytes, bytes] = file.schema_arrow.metadata
    return metadata


def read_settings(path: str | Path) -> dict[str, Any]:
    """The settings that :func:`write_table` stored in a file; see :func:`read_metadata`."""
    settings: dict[str, Any] = json.loads(read_metadata(path)[b"settings"])
    return settings
