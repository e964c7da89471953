"""Files of texts, and data sets of the Hugging Face Hub, read as written.

No text is taken for a number or a missing value.
"""

import bz2
import contextlib
import csv
import gzip
import hashlib
import io
import json
import lzma
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import datasets
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from huggingface_hub import HfApi

from anchorflow.config.errors import InputError, disk_is_full, is_out_of_memory
from anchorflow.schemas.texts import SPLITS

_UNPACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.decompress,
    ".bz2": bz2.decompress,
    ".xz": lzma.decompress,
    ".zst": lambda packed: pa.input_stream(io.BytesIO(packed), compression="zstd").read(),
}
_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_JSON = (".json", ".jsonl", ".ndjson")
_ARROW = (".parquet", ".arrow")
_SPREADSHEETS = (".xlsx", ".xls", ".ods")
# Byte order marks; that of UTF-32 begins with that of UTF-16.
_MARKS = {
    b"\xef\xbb\xbf": "utf-8-sig",
    b"\xff\xfe\0\0": "utf-32",
    b"\0\0\xfe\xff": "utf-32",
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
}
DOUBLE, NONE = "double", "none"  # how a file quotes
_BY_DEFAULT = {".csv": DOUBLE, ".tsv": NONE}  # as RFC 4180, and as tab-separated files mostly are
_QUOTED = re.compile(r'"(?:[^"]|"")*"')  # a field, as RFC 4180 has it
_COMMIT = re.compile("[0-9a-f]{40}")  # of the Hub

csv.field_size_limit(min(sys.maxsize, 2**31 - 1))  # a text may be a book


class Source(NamedTuple):
    """Rows of one file, or of one split of a data set."""

    where: str  # its name, with which error sentences begin
    columns: Sequence[str]  # all columns
    rows: pl.DataFrame  # with the wanted columns that exist
    classes: Any = None  # names of the label column's classes, as they are given
    all_text: bool = False  # whether numbers are text too, as in CSV and TSV


def read_file(path: Path, wanted: Sequence[str], label: str, quoting: str | None = None) -> Source:
    """Read a CSV, TSV, JSON, JSON lines, Parquet or Arrow file, which may be compressed.

    Whether the ``wanted`` columns are there is for the caller to check. ``label`` is the column of
    labels, whose classes are looked up. ``quoting``, of CSV and TSV, is ``double`` if quotation
    marks enclose fields and are doubled within (RFC 4180), and ``none`` if every line is a row and
    quotation marks are characters as others. By default, it is ``double`` for CSV and ``none`` for
    TSV, and files that can be read in both ways are refused.
    """
    unpack = _UNPACK.get(path.suffix.lower())
    suffix = (path if unpack is None else path.with_suffix("")).suffix.lower()
    if suffix not in (known := (*_SEPARATORS, *_JSON, *_ARROW)):
        remedy = "convert it to one"
        if suffix in _SPREADSHEETS:
            remedy = "export the sheet as CSV in UTF-8"
        raise InputError(f"{path}: texts are read from {', '.join(known)} files; {remedy}.")
    if not path.is_file():
        raise InputError(f"{path}: no such file; correct the path in the configuration.")
    try:
        content = path.read_bytes() if unpack is None else unpack(path.read_bytes())
        if suffix in _ARROW:
            return _of_table(path, _READ_ARROW[suffix](content), wanted, label)
        text = _decoded(content)
        if suffix in _JSON:
            columns, rows = _json_rows(text)
            found = [_column(rows, name) for name in columns if name in wanted]
            return Source(str(path), columns, pl.DataFrame(found))
        columns, written = _separated_rows(path, text, _SEPARATORS[suffix], suffix, quoting)
        places = [place for place, name in enumerate(columns) if name in wanted]
        frame = {columns[place]: [row[place] or None for row in written] for place in places}
        texts = pl.DataFrame(frame, dict.fromkeys(frame, pl.String))
        return Source(str(path), columns, texts, all_text=True)
    except InputError:
        raise
    except Exception as error:  # damaged files raise errors of many libraries
        if disk_is_full(error) or is_out_of_memory(error):
            raise
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        remedy = "quote texts with commas or line breaks" if suffix == ".csv" else "correct it"
        raise InputError(
            f"{path}: not a readable {suffix[1:]} file ({reason}); {remedy}, or replace it with an "
            "intact copy."
        ) from None


def _decoded(content: bytes) -> str:
    """The text of a file in UTF-8, or in another form of Unicode that a mark announces."""
    for mark, encoding in _MARKS.items():
        if content.startswith(mark):
            return content.decode(encoding)
    if b"\0" in content[:2]:
        raise ValueError("it seems to be UTF-16 without a byte order mark, so save it as UTF-8")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        byte = content[error.start : error.start + 1]
        perhaps = f', which Windows-1252 reads as "{byte.decode("cp1252", "replace")}"'
        raise ValueError(
            f"line {line} has the byte 0x{byte.hex()}{perhaps}, so it is not in UTF-8; save it so"
        ) from None


def _separated_rows(
    path: Path, text: str, separator: str, suffix: str, quoting: str | None
) -> tuple[list[str], list[list[str]]]:
    """The header and the rows of a CSV or TSV file, whose lines are rows unless it quotes.

    Without ``quoting``, it is refused if the other way to read also gives complete rows, but not as
    many, or if all quotation marks enclose fields of a file that is taken not to quote.
    """
    lines = list(io.StringIO(text, newline=""))
    used = quoting or _BY_DEFAULT[suffix]
    numbered = _numbered_rows(lines, separator, used)
    if (head := next(numbered, None)) is None:
        raise ValueError("it is empty")
    header = head[-1]
    others = [sign for sign in ",;\t|" if sign != separator and sign in header[0]]
    if len(header) == 1 and others:
        raise ValueError(
            f"its fields seem to be separated by {others[0]!r}; write it with {separator!r} instead"
        )
    rows = list(numbered)
    marked = [(line, field) for line, _, row in (head, *rows) for field in row if '"' in field]
    if quoting is None:
        if used == NONE and marked and all(_QUOTED.fullmatch(field) for _, field in marked):
            raise InputError(
                f"{path}: all quotation marks enclose fields, the first in line {marked[0][0]}; "
                f'write "quoting: {DOUBLE}" in the task if they do not belong to the texts, '
                f'"quoting: {NONE}" if they do (anchorflow init: --quoting).'
            )
        other = rows
        if used == NONE and '"' in text:
            with contextlib.suppress(ValueError, csv.Error):
                other = list(_numbered_rows(lines, separator, DOUBLE))[1:]
        for first, last, _ in rows if used == DOUBLE else other:
            parts = lines[first - 1 : last]
            if len(parts) > 1 and all(part.count(separator) + 1 == len(header) for part in parts):
                raise InputError(
                    f"{path}: lines {first} to {last} are one row if their quotation marks enclose "
                    f"a text, and {len(parts)} rows if these belong to the texts; write "
                    f'"quoting: {DOUBLE}" in the task for one, "quoting: {NONE}" for '
                    f"{len(parts)}, or correct them (anchorflow init: --quoting)."
                )
    return header, [row for _, _, row in rows]


def _numbered_rows(
    lines: Sequence[str], separator: str, quoting: str
) -> Iterator[tuple[int, int, list[str]]]:
    """First and last line (from 1) and fields of each row, the header first."""
    reader = csv.reader(
        lines,
        delimiter=separator,
        quoting=csv.QUOTE_MINIMAL if quoting == DOUBLE else csv.QUOTE_NONE,
        strict=True,
    )
    first, fields = 1, 0
    try:
        for row in reader:
            fields = fields or len(row)
            if len(row) not in (0, fields):
                quoted = '"' in "".join(row) and quoting == NONE
                remedy = f'; "quoting: {DOUBLE}" in the task if texts are quoted' if quoted else ""
                raise ValueError(f"line {first} has {len(row)} fields, the header {fields}{remedy}")
            if row:  # no empty line
                yield first, reader.line_num, row
            first = reader.line_num + 1
    except csv.Error as error:
        if "unexpected end" in str(error):
            raise ValueError(
                f'line {first} opens a quotation mark that is never closed; write "quoting: '
                f'{NONE}" in the task if it belongs to the text'
            ) from None
        raise ValueError(f"line {first}: {error}") from None


def _json_rows(text: str) -> tuple[list[str], Sequence[Mapping[str, Any]]]:
    """Columns and rows of a list of objects, of objects by lines, or of columns by name."""
    if not text.strip():
        raise ValueError("it is empty")
    try:
        whole = json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError:
        if text.lstrip().startswith("["):
            raise
        lines = enumerate(text.split("\n"), 1)
        whole = [_json_line(number, line) for number, line in lines if line.strip()]
    if isinstance(whole, dict):
        whole = _rows_of_columns(whole)
    if not isinstance(whole, list):
        raise ValueError("it holds no objects")
    for row, found in enumerate(whole, 1):
        if not isinstance(found, dict):
            raise ValueError(f"row {row} is not an object")
    return list(dict.fromkeys(key for row in whole for key in row)), whole


def _json_line(number: int, line: str) -> Any:
    try:
        return json.loads(line, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise ValueError(f"line {number}, column {error.colno}: {error.msg}") from None


def _rows_of_columns(found: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The rows of columns by name, each a list or, as pandas writes them, a mapping by row."""
    if all(isinstance(column, dict) for column in found.values()):
        (names, *others) = [list(column) for column in found.values()] or [[]]
        if any(other != names for other in others):
            raise ValueError("its columns have different rows")
        found = {name: list(column.values()) for name, column in found.items()}
    if not all(isinstance(column, list) for column in found.values()):
        return [found]  # one row
    if len({len(column) for column in found.values()}) > 1:
        raise ValueError("its columns differ in length")
    return [dict(zip(found, row, strict=True)) for row in zip(*found.values(), strict=True)]


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


def _of_table(path: Path, table: pa.Table, wanted: Sequence[str], label: str) -> Source:
    found = table.select([name for name in table.column_names if name in wanted])
    found.validate(full=True)  # or polars panics at bytes that are no UTF-8
    classes = _class_names(table.schema, label)
    return Source(str(path), table.column_names, pl.DataFrame(found), classes)


def _read_arrow(content: bytes) -> pa.Table:
    try:
        return pa.ipc.open_file(content).read_all()
    except pa.ArrowInvalid:
        return pa.ipc.open_stream(content).read_all()


_READ_ARROW: dict[str, Callable[[bytes], pa.Table]] = {
    ".parquet": lambda content: pq.read_table(pa.BufferReader(content)),
    ".arrow": _read_arrow,
}


def _class_names(schema: pa.Schema, label: str) -> Any:
    """Names of the label column's classes, where the library ``datasets`` wrote them."""
    described = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
    return described.get("info", {}).get("features", {}).get(label, {}).get("names")


def read_splits(
    name: str, task: Mapping[str, Any], wanted: Sequence[str]
) -> tuple[dict[str, Source], str]:
    """Download the splits of a task, unless they are in the cache, and read them.

    Whether the ``wanted`` columns are there is for the caller to check. Also returns the commit.
    """
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)
    datasets.disable_progress_bars()
    with _fetching(name, task):
        commit = _commit(task)
        with _cache(commit, wanted) as folder:
            builder = datasets.load_dataset_builder(
                f"hf://datasets/{task['repository']}",  # or a folder of that name would be taken
                task.get("subset"),
                revision=commit,
                cache_dir=str(folder),
            )
            # Without a download; for a prepared data set, from its description.
            splits = builder.config.data_files or builder.info.splits or ()
            _check_splits(name, task, list(map(str, splits)))
            # Texts of CSV files are kept as written; pandas would read "NA" as missing, and "01" as
            # a number.
            if hasattr(builder.config, "keep_default_na"):
                builder.config.keep_default_na = builder.config.na_filter = False
                builder.config.converters = dict.fromkeys(wanted, str)
            if not Path(builder.cache_dir, "dataset_info.json").is_file():
                builder.download_and_prepare()
            return {split: _source(name, task, builder, split, wanted) for split in SPLITS}, commit


@contextlib.contextmanager
def _fetching(name: str, task: Mapping[str, Any]) -> Iterator[None]:
    """Report what keeps a data set from being loaded in one sentence."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # the library raises errors of many others
        causes: list[BaseException] = [error]
        while cause := causes[-1].__cause__ or causes[-1].__context__:
            causes.append(cause)
        for cause in causes:
            if disk_is_full(cause) or is_out_of_memory(cause):
                raise cause from None
        reported: BaseException = error
        if isinstance(error, datasets.exceptions.DatasetGenerationError) and error.__cause__:
            reported = error.__cause__
        reason = (" ".join(str(reported).split()) or type(reported).__name__).rstrip(".")
        subset = f", subset {task['subset']}," if "subset" in task else ""
        raise InputError(
            f"tasks.{name}: could not fetch the data set {task['repository']}{subset} at revision "
            f"{task['revision'][:12]} from the Hugging Face Hub ({reason}); check repository, "
            "subset and revision, or work offline with a copy of the files and "
            '"source: local".'
        ) from None


def _commit(task: Mapping[str, Any]) -> str:
    """The commit of a revision, which may be a branch."""
    revision: str = task["revision"]
    if _COMMIT.fullmatch(revision):
        return revision
    return str(HfApi().dataset_info(task["repository"], revision=revision).sha)


@contextlib.contextmanager
def _cache(commit: str, kept: Sequence[str]) -> Iterator[Path]:
    """The folder in which the library prepares a commit, with these columns kept as written.

    Each commit has its own one: offline, the library takes whatever it has of a repository, which
    could be another revision. If it can't be written, a temporary one with links to what has been
    prepared.
    """
    columns = hashlib.sha256(json.dumps(kept).encode()).hexdigest()[:8]
    folder = Path(datasets.config.HF_DATASETS_CACHE) / "revisions" / commit / columns
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    if os.access(folder, os.W_OK):
        yield folder
        return
    with tempfile.TemporaryDirectory() as temporary:
        for prepared in folder.glob("*/"):
            (Path(temporary) / prepared.name).symlink_to(prepared.absolute())
        yield Path(temporary)


def _check_splits(name: str, task: Mapping[str, Any], there: Sequence[str]) -> None:
    for split in SPLITS:
        try:
            parts = datasets.ReadInstruction.from_spec(task[split])
            # Sizes are not known yet: larger ones than any, to check names and syntax alone.
            parts.to_absolute(dict.fromkeys(there, 2**40))
        except Exception as error:
            reason = " ".join(str(error).split()).rstrip(".")
            raise InputError(
                f"tasks.{name}.{split}: {task[split]!r} is not a split of {task['repository']}, "
                f"which has {', '.join(there)} ({reason}); correct it, as in train[:5000]."
            ) from None


def _source(
    name: str,
    task: Mapping[str, Any],
    builder: datasets.DatasetBuilder,
    split: str,
    wanted: Sequence[str],
) -> Source:
    rows = builder.as_dataset(split=task[split])
    subset = f" ({task['subset']})" if "subset" in task else ""
    where = f"tasks.{name}.{split}: {task['repository']}{subset}, {task[split]}"
    feature = rows.features.get(task["columns"]["label"])
    classes = feature.names if isinstance(feature, datasets.ClassLabel) else None
    there = [column for column in rows.column_names if column in wanted]
    all_text = hasattr(builder.config, "keep_default_na")  # of CSV, see above
    found = rows.select_columns(there).to_polars()
    return Source(where, rows.column_names, found, classes, all_text)
