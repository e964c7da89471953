"""Shards of one table, one below the other in one file, a part of one shard in memory at a time."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from anchorflow.errors import InputError
from anchorflow.tables import (
    REMEDY,
    TABLES,
    check_intact,
    check_schema,
    replacing,
    rows_per_group,
    table_writer,
)

READ = 2**16  # rows at a time, at most


def gather(shards: Sequence[str | Path], path: str | Path, rows: int | None = None) -> None:
    """Write the rows of all shards, in their order, as one file with the shards' metadata.

    Equal rows make the bytes that ``tables.write_table`` makes of them, however they are split.

    Parameters
    ----------
    shards
        Files of one table, each of its own test texts, which increase from shard to shard.
    rows : int, optional
        Of a row group, wherever shards end; so many are held in memory. Without it, those of
        ``tables.rows_per_group``.

    Raises
    ------
    InputError
        If a shard is missing or damaged, is not of the first one's table or has another schema
        version, was made with other settings or software, or repeats test texts; names the file.
    """
    for shard in shards:
        check_intact(shard, "shard")
    schema = _schema(shards[0])
    metadata = [_metadata(shard, schema) for shard in shards]
    for key in (b"settings", b"software"):
        for shard, own in zip(shards, metadata, strict=True):
            if own.get(key) != metadata[0].get(key):
                raise InputError(
                    f"{shard}: its {key.decode()} differ from those of {shards[0]}, so they can't "
                    "be gathered; delete the older of the two and run again to rebuild it."
                )
    schema = schema.with_metadata(metadata[0])
    rows = rows or rows_per_group(schema)
    with replacing(path) as temporary, table_writer(temporary, schema) as writer:
        for group in _in_groups(_batches(shards, schema, min(READ, rows)), schema, rows):
            writer.write_table(group)


def _in_groups(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, rows: int
) -> Iterator[pa.Table]:
    """The batches' rows as tables of ``rows`` rows, the last one with what is left."""
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
    """Of the table that a shard says it is."""
    metadata = pq.read_schema(shard).metadata or {}
    name = metadata.get(b"table", b"").decode()
    if name not in TABLES:
        raise InputError(f"{shard}: it is no table of this project; {REMEDY}")
    return TABLES[name]


def _metadata(shard: str | Path, schema: pa.Schema) -> dict[bytes, bytes]:
    """The metadata of a shard that is the table it should be."""
    found = pq.read_schema(shard)
    check_schema(shard, found, schema)
    metadata: dict[bytes, bytes] = found.metadata
    return metadata


def _batches(
    shards: Sequence[str | Path], schema: pa.Schema, rows: int
) -> Iterator[pa.RecordBatch]:
    """The rows of all shards; checks that no test text comes before or twice."""
    reached = -1
    for shard in shards:
        last = reached
        with pq.ParquetFile(shard) as file:
            for batch in file.iter_batches(rows):
                if "example" in schema.names and len(batch):
                    span = pc.min_max(batch["example"])
                    if span["min"].as_py() <= reached:
                        raise InputError(
                            f"{shard}: it holds test texts of the shards before it; {REMEDY}"
                        )
                    last = max(last, span["max"].as_py())
                yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)
        reached = last
