"""Concatenate the shards of a table into one file, with part of one shard in memory at a time."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from anchorflow.config.errors import InputError
from anchorflow.schemas.frames import arrow_schema
from anchorflow.store.all_tables import TABLES
from anchorflow.store.parquet import REMEDY, check_schema, rows_per_group, sealed_writer, table_file
from anchorflow.store.replacing import replacing

READ = 2**16  # rows read at a time, at most


def gather(shards: Sequence[str | Path], path: str | Path, rows: int | None = None) -> None:
    """Write the rows of all shards, in order, to one file with the shards' metadata.

    The bytes are those that ``write_table`` writes for the same rows, however they are split.

    Their test texts are distinct and increase from shard to shard. A row group has this many
    ``rows``, wherever shards end, and is held in memory; by default, those of ``rows_per_group``.
    """
    schema = _schema(shards[0])
    metadata = [_metadata(shard, schema) for shard in shards]
    for key in (b"settings", b"software"):
        for shard, of_shard in zip(shards, metadata, strict=True):
            if of_shard.get(key) != metadata[0].get(key):
                raise InputError(
                    f"{shard}: its {key.decode()} differ from those of {shards[0]}, so they can't "
                    "be gathered; delete the older of the two and run again to rebuild it."
                )
    schema = schema.with_metadata(metadata[0])
    rows = rows or rows_per_group(schema)
    with replacing(path) as temporary, sealed_writer(temporary, schema) as writer:
        for group in _in_groups(_batches(shards, schema, min(READ, rows)), schema, rows):
            writer.write_table(group)


def _in_groups(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, rows: int
) -> Iterator[pa.Table]:
    """The batches' rows as tables of ``rows`` rows, the last one with the remainder."""
    waiting, full = schema.empty_table(), 0
    for batch in batches:
        waiting = pa.concat_tables([waiting, pa.Table.from_batches([batch])])
        while len(waiting) >= rows:
            yield waiting.slice(0, rows).combine_chunks()
            full += 1
            waiting = waiting.slice(rows)
    if len(waiting) or not full:
        yield waiting.combine_chunks()


def _schema(shard: str | Path) -> pa.Schema:
    """The schema of the table that a shard's metadata names."""
    with table_file(shard, "shard") as file:
        name = file.schema_arrow.metadata[b"table"].decode()
    if name not in TABLES:
        raise InputError(f"{shard}: it is not a table of this project; {REMEDY}")
    return arrow_schema(TABLES[name])


def _metadata(shard: str | Path, schema: pa.Schema) -> dict[bytes, bytes]:
    """A shard's metadata; checks that it is of the expected table."""
    with table_file(shard, "shard") as file:
        found = file.schema_arrow
    check_schema(shard, found, schema)
    metadata: dict[bytes, bytes] = found.metadata
    return metadata


def _batches(
    shards: Sequence[str | Path], schema: pa.Schema, rows: int
) -> Iterator[pa.RecordBatch]:
    """The rows of all shards; checks that test texts increase from shard to shard."""
    reached = -1
    for shard in shards:
        last = reached
        with table_file(shard, "shard") as file:
            for batch in file.iter_batches(rows):
                if "example" in schema.names and len(batch):
                    span = pc.min_max(batch["example"])
                    if span["min"].as_py() <= reached:
                        raise InputError(
                            f"{shard}: it contains test texts of earlier shards; {REMEDY}"
                        )
                    last = max(last, span["max"].as_py())
                yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)
        reached = last
