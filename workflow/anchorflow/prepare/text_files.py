"""Files of texts, read as written: no text is taken for a number or a missing value."""

import bz2
import gzip
import io
import json
import lzma
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from anchorflow.config.errors import InputError, disk_is_full, is_out_of_memory

_UNPACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.decompress,
    ".bz2": bz2.decompress,
    ".xz": lzma.decompress,
    ".zst": lambda packed: pa.input_stream(io.BytesIO(packed), compression="zstd").read(),
}


class Source(NamedTuple):
    """Rows of one file, or of one split of a data set."""

    where: str  # its name, with which error sentences begin
    columns: Sequence[str]  # all columns
    rows: pl.DataFrame  # with the wanted columns that exist
    typed: bool  # False for CSV and TSV, whose values are all text
    classes: Sequence[str] | None  # names of the label column's classes, where it has any


def read_file(path: Path, wanted: Sequence[str], label: str) -> Source:
    """Read a file of texts.

    Parameters
    ----------
    path : Path
        A CSV, TSV, JSON, JSON lines, Parquet or Arrow file, which may be compressed.
    wanted : sequence of str
        The columns to read; whether they are there is for the caller to check.
    label : str
        The column of labels, whose classes are looked up.

    Raises
    ------
    InputError
        For a file that is not there, or can't be read.
    """
    suffix = path.with_suffix("").suffix if path.suffix in _UNPACK else path.suffix
    if suffix not in _READ:
        raise InputError(
            f"{path}: texts are read from {', '.join(_READ)} files; convert it to one."
        )
    if not path.is_file():
        raise InputError(f"{path}: no such file; correct the path in the configuration.")
    classes = None
    try:
        content = path.read_bytes()
        if path.suffix in _UNPACK:
            content = _UNPACK[path.suffix](content)
        found = _READ[suffix](content.removeprefix(b"\xef\xbb\xbf"))  # a byte order mark
        if isinstance(found, pa.Table):
            columns, classes = found.column_names, _class_names(found.schema, label)
            table = found.select([name for name in columns if name in wanted])
            table.validate(full=True)  # or polars panics at bytes that are no UTF-8
            frame = pl.DataFrame(table)
        elif isinstance(found, pl.DataFrame):
            columns = found.columns
            frame = found.select(name for name in columns if name in wanted)
        else:
            columns = list(dict.fromkeys(key for row in found for key in row))
            frame = pl.DataFrame([_column(found, name) for name in columns if name in wanted])
    except Exception as error:  # damaged files raise errors of many libraries
        if disk_is_full(error) or is_out_of_memory(error):
            raise
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        remedy = "quote texts with commas or line breaks" if suffix == ".csv" else "correct it"
        raise InputError(
            f"{path}: not a readable {suffix[1:]} file ({reason}); {remedy}, or replace it with an "
            "intact copy."
        ) from None
    return Source(str(path), columns, frame, suffix not in (".csv", ".tsv"), classes)


def _read_csv(content: bytes) -> pl.DataFrame:
    return pl.read_csv(content, infer_schema=False)


def _read_tsv(content: bytes) -> pl.DataFrame:
    return pl.read_csv(content, separator="\t", infer_schema=False)


def _read_json(content: bytes) -> list[dict[str, Any]]:
    """The objects of a JSON list, or of JSON lines."""
    text = content.decode().strip()
    if not text:
        raise ValueError("it is empty")
    rows = [text] if text.startswith("[") else [line for line in text.split("\n") if line.strip()]
    read = [json.loads(row, object_pairs_hook=_object) for row in rows]
    for row, found in enumerate(objects := read[0] if text.startswith("[") else read, 1):
        if not isinstance(found, dict):
            raise ValueError(f"row {row} is not an object")
    return objects


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"an object repeats a key among {', '.join(key for key, _ in pairs)}")
    return found


def _column(rows: Sequence[Mapping[str, Any]], name: str) -> pl.Series:
    """One value of each object; raises ValueError if they are of several types."""
    values = [row.get(name) for row in rows]
    kinds = list(dict.fromkeys(type(value).__name__ for value in values if value is not None))
    if len(kinds) > 1:
        raise ValueError(f'column "{name}" holds values of several kinds: {", ".join(kinds)}')
    return pl.Series(name, values, strict=True)


def _read_parquet(content: bytes) -> pa.Table:
    return pq.read_table(pa.BufferReader(content))


def _read_arrow(content: bytes) -> pa.Table:
    try:
        return pa.ipc.open_file(content).read_all()
    except pa.ArrowInvalid:
        return pa.ipc.open_stream(content).read_all()


_READ: dict[str, Callable[[bytes], pl.DataFrame | pa.Table | list[dict[str, Any]]]] = {
    ".csv": _read_csv,
    ".tsv": _read_tsv,
    ".json": _read_json,
    ".jsonl": _read_json,
    ".ndjson": _read_json,
    ".parquet": _read_parquet,
    ".arrow": _read_arrow,
}


def _class_names(schema: pa.Schema, label: str) -> Sequence[str] | None:
    """Names of the label column's classes, where the library ``datasets`` wrote them."""
    described = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
    names: Sequence[str] | None = (
        described.get("info", {}).get("features", {}).get(label, {}).get("names")
    )
    return names
