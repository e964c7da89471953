"""Labeled texts of one task, from any source, as one checked table."""

import codecs
import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from anchorflow.config.errors import InputError
from anchorflow.config.fields import FIELD_SEPARATOR, fields_of

SPLITS = ("train", "test")
MOST_ROWS = 10_000_000  # of one file
MOST_BYTES = 2**31  # of one file, and of its texts

_DAMAGE = (
    pl.exceptions.PolarsError,
    pl.exceptions.PanicException,
    pa.ArrowException,
    OSError,
    ValueError,
)
_TEXT = (pl.String, pl.Categorical, pl.Enum)
# gzip, zlib and Zstandard, which polars would unpack to any size
_COMPRESSED = (b"\x1f\x8b", b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda", b"\x28\xb5\x2f\xfd")
# polars turns it into U+0000
_HALF_A_PAIR = re.compile(
    rb"\\u[dD][89abAB][\da-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][\da-fA-F]{2})\\u[dD][c-fC-F]"
)


def read_texts(name: str, task: Mapping[str, Any], files: Mapping[str, str | Path]) -> pl.DataFrame:
    """Read and check the training and test texts of one task.

    Parameters
    ----------
    name : str
        The task's name, for error sentences and the ``task`` column.
    task : mapping
        ``columns``, ``labels`` and optionally ``values``, as in the configuration.
    files : mapping
        Path of the CSV, JSON lines or Parquet file of each split.

    Returns
    -------
    DataFrame
        Columns of ``TEXTS``: task, split, row, text, label.

    Raises
    ------
    InputError
        For an unreadable file, a missing column, an empty text, or a label that is not one of the
        task's; names the file and the row.
    """
    parts = [_read_split(name, split, task, Path(files[split])) for split in SPLITS]
    return pl.concat(parts)


def _read_split(name: str, split: str, task: Mapping[str, Any], path: Path) -> pl.DataFrame:
    columns = task["columns"]
    fields = {name: _listed(columns[name]) for name in fields_of(columns)}
    roles = [(name, column) for name, listed in fields.items() for column in listed]
    roles.append(("label", columns["label"]))
    wanted = list(dict.fromkeys(column for _, column in roles))
    with _reading(path):
        table = _open(path)
    _check_names(name, roles, _names(table), path)
    with _reading(path):
        kinds = _kinds(table, wanted)
    _check_kinds(name, roles, kinds, path)
    with _reading(path):
        frame = _rows(table, wanted, path)
    texts = _joined(frame, fields, path)
    labels = _labels(name, task, frame[columns["label"]], path)
    return pl.DataFrame(
        {
            "task": pl.Series([name] * len(texts), dtype=pl.String),
            "split": pl.Series([split] * len(texts), dtype=pl.String),
            "row": pl.Series(range(len(texts)), dtype=pl.Int32),
            "text": texts,
            "label": pl.Series(labels, dtype=pl.Int32),
        }
    )


def _listed(columns: str | Sequence[str]) -> list[str]:
    return [columns] if isinstance(columns, str) else list(columns)


def _joined(frame: pl.DataFrame, fields: Mapping[str, Sequence[str]], path: Path) -> pl.Series:
    """The texts: columns of a field are joined by a space, fields by ``FIELD_SEPARATOR``."""
    parts = frame.select(
        pl.concat_str([pl.col(column).cast(pl.String) for column in columns], separator=" ").alias(
            name
        )
        for name, columns in fields.items()
    )
    for name, part in zip(fields, parts, strict=True):
        blank = (part.is_null() | (part.str.strip_chars().str.len_chars() == 0)).arg_true()
        if len(blank):
            raise InputError(
                f"{path}: row {blank[0] + 1} has an empty {name} ({len(blank)} in all); "
                "remove these rows or fill them in."
            )
        if len(fields) > 1 and len(found := part.str.contains(FIELD_SEPARATOR).arg_true()):
            raise InputError(
                f"{path}: row {found[0] + 1} has the character U+001F in its {name}, by which "
                "fields are joined; remove it."
            )
    return parts.select(pl.concat_str(pl.all(), separator=FIELD_SEPARATOR)).to_series()


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Report a damaged file in one sentence."""
    try:
        yield
    except _DAMAGE as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"{path}: not a readable {path.suffix[1:]} file ({reason}); "
            "replace it with an intact copy."
        ) from None


def _open(path: Path) -> "pl.DataFrame | pq.ParquetFile":
    """Read a text file; only open a Parquet file, since damaged ones crash polars."""
    readers: dict[str, Callable[[Path], pl.DataFrame | pq.ParquetFile]] = {
        ".csv": _csv,
        ".jsonl": _json_lines,
        ".ndjson": _json_lines,
        ".parquet": pq.ParquetFile,
    }
    if path.suffix not in readers:
        raise InputError(
            f"{path}: texts are read from {', '.join(readers)} files; convert it to one."
        )
    if not os.path.isfile(path):
        raise InputError(f"{path}: no such file; correct the path in the configuration.")
    _refuse_more(path, path.stat().st_size, MOST_BYTES, "bytes")
    with open(path, "rb") as file:
        beginning = file.read(4)
    if path.suffix != ".parquet" and beginning.startswith(_COMPRESSED):
        raise InputError(f"{path}: the file is compressed; unpack it.")
    return readers[path.suffix](path)


def _csv(path: Path) -> pl.DataFrame:
    whole = path.absolute()  # otherwise polars would expand "~", and treat "s3:" as remote
    return pl.read_csv(whole, infer_schema_length=None, glob=False)


def _json_lines(path: Path) -> pl.DataFrame:
    content = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    if b"\\ud" in content.lower():
        for row, line in enumerate(content.splitlines(), 1):
            if _HALF_A_PAIR.search(line.replace(b"\\\\", b".")):
                raise InputError(
                    f"{path}: line {row} has half of a surrogate pair (as \\ud800), which is not "
                    "a character; remove it."
                )
    return pl.read_ndjson(content, infer_schema_length=None)


def _names(table: "pl.DataFrame | pq.ParquetFile") -> list[str]:
    return table.columns if isinstance(table, pl.DataFrame) else list(table.schema_arrow.names)


def _kinds(table: "pl.DataFrame | pq.ParquetFile", columns: list[str]) -> pl.Schema:
    if isinstance(table, pl.DataFrame):
        return table.select(columns).schema
    fields = [pa.field(name, table.schema_arrow.field(name).type) for name in columns]
    empty = pl.from_arrow(pa.schema(fields).empty_table())
    assert isinstance(empty, pl.DataFrame)
    return empty.schema


def _check_names(
    name: str, roles: Sequence[tuple[str, str]], there: Sequence[str], path: Path
) -> None:
    for role, column in roles:
        key = f"tasks.{name}.columns.{role}"
        if column not in there:
            raise InputError(
                f'{path}: there is no column "{column}" (it has {", ".join(there)}); set {key}.'
            )
        twin = f"{column}_duplicated_0" if path.suffix == ".csv" else None
        if there.count(column) > 1 or twin in there:
            raise InputError(
                f'{path}: several columns are called "{column}"; rename one, or set {key}.'
            )


def _check_kinds(
    name: str, roles: Sequence[tuple[str, str]], kinds: Mapping[str, Any], path: Path
) -> None:
    for role, column in roles:
        kind, key = kinds[column], f"tasks.{name}.columns.{role}"
        if role != "label" and kind not in (*_TEXT, pl.Null):
            raise InputError(f'{path}: column "{column}" holds {kind}, not text; set {key}.')
        if kind.is_nested() or kind == pl.Binary:
            raise InputError(f'{path}: column "{column}" holds {kind}, not labels; set {key}.')


def _rows(table: "pl.DataFrame | pq.ParquetFile", columns: list[str], path: Path) -> pl.DataFrame:
    rows = len(table) if isinstance(table, pl.DataFrame) else table.metadata.num_rows
    if not rows:
        raise InputError(f"{path}: the file holds no rows; texts are needed.")
    _refuse_more(path, rows, MOST_ROWS, "rows")
    if isinstance(table, pl.DataFrame):
        return table.select(columns)
    return pl.concat(_parquet_batches(columns, path))


def _parquet_batches(columns: list[str], path: Path) -> Iterator[pl.DataFrame]:
    """Rows of a Parquet file, a few at a time: it may expand a thousandfold.

    The size of texts is computed from dictionary and indices, before decoding copies each text.
    """
    size = 0
    for batch in pq.ParquetFile(path, read_dictionary=columns).iter_batches(
        10_000, columns=columns
    ):
        arrays = []
        for array in batch.columns:
            if pa.types.is_dictionary(array.type):
                lengths = pc.binary_length(array.dictionary).cast(pa.int64())
                size += pc.sum(lengths.take(array.indices)).as_py() or 0
                _refuse_more(path, size, MOST_BYTES, "bytes of text")
                array = array.dictionary_decode().cast(pa.large_string())
            array.validate(full=True)
            arrays.append(array)
        frame = pl.from_arrow(pa.table(arrays, names=columns))
        assert isinstance(frame, pl.DataFrame)
        yield frame


def _refuse_more(path: Path, amount: int, most: int, unit: str) -> None:
    if amount > most:
        raise InputError(
            f"{path}: {amount} {unit} are more than the {most} that are read; keep a part of them."
        )


def _labels(name: str, task: Mapping[str, Any], column: pl.Series, path: Path) -> Sequence[int]:
    words = [word.strip() for word in task["labels"]]
    index: dict[Any, int]
    if task.get("values") is not None:
        index = {str(value): label for label, value in enumerate(task["values"])}
    elif column.dtype.is_integer():
        index = {str(label): label for label in range(len(words))}
        if any(index.get(word, label) != label for label, word in enumerate(words)):
            raise InputError(
                f"{path}: the labels are integers, which could be {', '.join(words)} or their "
                f"indices; set tasks.{name}.values."
            )
    elif column.dtype == pl.Boolean:
        index = {word.capitalize(): label for label, word in enumerate(words)}
    else:
        index = {word: label for label, word in enumerate(words)}
    labels = []
    for row, value in enumerate(column.to_list()):
        if str(value) not in index:
            raise InputError(
                f"{path}: row {row + 1} has the label {value!r}, which is none of "
                f"{', '.join(index)}; correct it, or set tasks.{name}.labels and "
                f"tasks.{name}.values."
            )
        labels.append(index[str(value)])
    return labels


def download_texts(name: str, task: Mapping[str, Any]) -> dict[str, Path]:
    """Fetch the Parquet files of a Hub data set at its pinned revision, into the Hub's cache.

    Returns
    -------
    dict
        Path of each split's file; the folder ``snapshots/…`` in it names the commit.

    Raises
    ------
    InputError
        If the Hub can't be reached or does not have the file; explains how to work offline.
    """
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    files = {}
    for split in SPLITS:
        file = task[split]
        try:
            found = hf_hub_download(
                task["repository"], file, repo_type="dataset", revision=task["revision"]
            )
        except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
            raise InputError(
                f"tasks.{name}: could not fetch {file} of the data set {task['repository']} at "
                f"revision {task['revision'][:12]} from the Hugging Face Hub "
                f"({type(error).__name__}); check the names, or work offline with a copy of the "
                'file and "source: local".'
            ) from None
        files[split] = Path(found)
    return files
