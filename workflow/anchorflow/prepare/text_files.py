"""Local files of texts, opened by the library ``datasets`` after what it does not check itself.

The library reads them as a stream, so nothing is cached: an edited file is never mistaken for what
it held before, and nothing is left anywhere.
"""

import bz2
import contextlib
import csv
import gzip
import itertools
import lzma
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
from datasets.data_files import DataFilesDict, DataFilesList
from datasets.packaged_modules.arrow.arrow import Arrow
from datasets.packaged_modules.csv.csv import Csv
from datasets.packaged_modules.json.json import Json
from datasets.packaged_modules.parquet.parquet import Parquet
from pandas.errors import DtypeWarning, ParserWarning

from anchorflow.config.errors import InputError, disk_is_full, is_out_of_memory

MOST_ROWS = 10_000_000  # of one file
MOST_BYTES = 2**31  # of one file, packed and unpacked, and of its texts
ROWS_AT_A_TIME = 1000

BUILDERS = {
    ".csv": Csv,
    ".tsv": Csv,
    ".json": Json,
    ".jsonl": Json,
    ".ndjson": Json,
    ".parquet": Parquet,
    ".arrow": Arrow,
}
_UNPACK: dict[str, Callable[[Path], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": lambda path: pa.CompressedInputStream(pa.OSFile(str(path)), "zstd"),
}
_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_PACKED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"PK\x03\x04")
_ZLIB = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
# the library would leave it out
_HALF_A_PAIR = re.compile(
    rb"\\u[dD][89abAB][\da-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][\da-fA-F]{2})\\u[dD][c-fC-F]"
)


class Source(NamedTuple):
    """Rows of one file, or of one split of a data set, not read yet."""

    where: str  # with which sentences about it begin
    columns: Sequence[str]
    typed: bool  # whether numbers are told from text
    classes: Sequence[str] | None  # names of the label column's classes, where it has any
    tables: Iterator[pa.Table]  # a few rows at a time, of the wanted columns


@contextlib.contextmanager
def opened(path: Path, wanted: Sequence[str], label: str) -> Iterator[Source]:
    """Open a file of texts for the block.

    Parameters
    ----------
    path : Path
        A CSV, JSON, JSON lines, Parquet or Arrow file; the first three may be compressed.
    wanted : sequence of str
        The columns to read; whether they are there is for the caller to check, before reading.
    label : str
        The column of labels, whose classes are looked up.

    Raises
    ------
    InputError
        For a file that is not there, can't be read, or is too large; while reading, too.
    """
    suffix = _suffix(path)
    with quietly(), tempfile.TemporaryDirectory() as folder:
        with reading(path, suffix):
            plain = _plain(path, suffix, Path(folder))
            columns = _columns(path, plain)
            builder = BUILDERS[suffix](cache_dir=folder, data_files=_only(plain))
            exact(builder, columns or ())
            if suffix in _SEPARATORS:
                builder.config.sep = _SEPARATORS[suffix]
            elif suffix == ".parquet":
                builder.config.columns = [name for name in columns or () if name in wanted]
            stream = builder.as_streaming_dataset(split="train").with_format("arrow")
            tables = stream.iter(batch_size=ROWS_AT_A_TIME)
            if columns is None:
                first = next(tables, None)
                columns = [] if first is None else first.column_names
                tables = tables if first is None else itertools.chain([first], tables)
            there = [column for column in columns if column in wanted]
        classes = class_names(stream.features, label)
        tables = _rows(tables, there, path, suffix)
        yield Source(str(path), columns, BUILDERS[suffix] is not Csv, classes, tables)


def exact(builder: datasets.DatasetBuilder, text_columns: Sequence[str]) -> None:
    """Make a builder keep every value as it is written.

    pandas takes texts such as "NA" or "None" for missing ones, and a column without a name for row
    labels; pieces of a JSON file could get types of their own, as dates in the last of them.
    """
    if isinstance(builder, Csv):
        builder.config.keep_default_na = builder.config.na_filter = False
        builder.config.skip_blank_lines = False
        builder.config.index_col = False
        builder.config.converters = dict.fromkeys(text_columns, str)
    elif isinstance(builder, Json):
        builder.config.chunksize = MOST_BYTES + 1
        builder.config.on_mixed_types = None
        builder.config.parse_agent_traces = False
    elif isinstance(builder, Parquet):
        builder.config.batch_size = ROWS_AT_A_TIME


def class_names(features: datasets.Features | None, label: str) -> Sequence[str] | None:
    """Names of the classes of a label column, where it says so."""
    feature = (features or {}).get(label)
    return feature.names if isinstance(feature, datasets.ClassLabel) else None


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Leave out what the library prints, and stop where pandas only warns that it cut something."""
    verbosity = datasets.logging.get_verbosity()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)
    datasets.disable_progress_bars()
    try:
        with warnings.catch_warnings():
            for kind in (DtypeWarning, ParserWarning):
                warnings.simplefilter("error", kind)
            yield
    finally:
        datasets.logging.set_verbosity(verbosity)
        datasets.enable_progress_bars()


@contextlib.contextmanager
def reading(path: Path, suffix: str) -> Iterator[None]:
    """Report a damaged file in one sentence."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # damaged files raise errors of many libraries
        if disk_is_full(error) or is_out_of_memory(error):
            raise
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(
            f"{path}: not a readable {suffix[1:]} file ({reason}); replace it with an intact copy."
        ) from None


def _suffix(path: Path) -> str:
    """The suffix that says how a file is read, without that of its compression."""
    suffix = path.with_suffix("").suffix if path.suffix in _UNPACK else path.suffix
    if suffix not in BUILDERS:
        raise InputError(
            f"{path}: texts are read from {', '.join(BUILDERS)} files; convert it to one."
        )
    return suffix


def _plain(path: Path, suffix: str, folder: Path) -> Path:
    """The file by a name without characters that the library would interpret, and unpacked."""
    if not path.is_file():
        raise InputError(f"{path}: no such file; correct the path in the configuration.")
    refuse_more(path, path.stat().st_size, MOST_BYTES, "bytes")
    plain = folder / f"texts{suffix.replace('nd', '')}"
    if path.suffix == suffix:
        plain.symlink_to(path.absolute())
    else:
        with _UNPACK[path.suffix](path) as packed, open(plain, "wb") as file:
            while block := packed.read(2**20):
                refuse_more(path, file.tell() + len(block), MOST_BYTES, "unpacked bytes")
                file.write(block)
    with open(plain, "rb") as file:
        beginning = file.read(2**12)
    if not beginning:
        raise ValueError("it is empty")
    if beginning.startswith(_PACKED) or (suffix != ".parquet" and beginning.startswith(_ZLIB)):
        raise InputError(
            f"{path}: the file is compressed; unpack it, or name it as what it is, as in "
            "train.csv.gz."
        )
    first = beginning.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if suffix.startswith((".json", ".ndjson")) and first not in (b"", b"{", b"["):
        raise ValueError("it begins with neither { nor [")  # some of which crash the library
    if issubclass(BUILDERS[suffix], Json):
        _refuse_half_a_pair(path, plain)
    return plain


def _refuse_half_a_pair(path: Path, plain: Path) -> None:
    with open(plain, "rb") as file:
        for row, line in enumerate(file, 1):
            if b"\\ud" in line.lower() and _HALF_A_PAIR.search(line.replace(b"\\\\", b".")):
                raise InputError(
                    f"{path}: line {row} has half of a surrogate pair (as \\ud800), which is not "
                    "a character; remove it."
                )


def _columns(path: Path, plain: Path) -> list[str] | None:
    """The names of a file's columns, repeated ones included; those of JSON are read with it."""
    if plain.suffix in (".csv", ".tsv"):
        return _header(path, plain)
    if plain.suffix == ".parquet":
        parquet = pq.ParquetFile(plain)
        refuse_more(path, parquet.metadata.num_rows, MOST_ROWS, "rows")
        return list(parquet.schema_arrow.names)
    return None


def _header(path: Path, plain: Path) -> list[str]:
    """The first row of a CSV file, if all rows are quoted as they should be and of its length.

    pandas would read others in its own way.
    """
    longest = csv.field_size_limit(MOST_BYTES)
    try:
        with open(plain, encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(file, delimiter=_SEPARATORS[plain.suffix], strict=True)
            header = next(rows)
            for row in rows:
                if len(row) not in (0, len(header)):  # a blank line is an empty text
                    raise InputError(
                        f"{path}: line {rows.line_num} ends a row of {len(row)} fields, but the "
                        f"header has {len(header)}; quote texts with commas or line breaks."
                    )
            return header or [""]
    finally:
        csv.field_size_limit(longest)


def _only(plain: Path) -> DataFilesDict:
    """The data files of a builder: one, without a search for files whose names match."""
    return DataFilesDict({"train": DataFilesList([str(plain)], [()])})


def _rows(
    tables: Iterator[pa.Table], columns: list[str], path: Path, suffix: str
) -> Iterator[pa.Table]:
    with reading(path, suffix):
        for table in tables:
            table = table.select(columns)
            table.validate(full=True)
            yield table


def refuse_more(where: object, amount: int, most: int, unit: str) -> None:
    """Refuse an amount beyond what is read of one source."""
    if amount > most:
        raise InputError(
            f"{where}: {amount} {unit} are more than the {most} that are read; keep a part of them."
        )
