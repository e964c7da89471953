"""Labelled texts of one task, from whichever source, as one checked table."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from anchorflow.errors import InputError

SPLITS = ("train", "test")


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
        Columns of ``tables.TEXTS``: task, split, row, text, label.

    Raises
    ------
    InputError
        For an unreadable file, a missing column, an empty text, or a label that is no class of
        the task; names the file and the row.
    """
    parts = [_read_split(name, split, task, Path(files[split])) for split in SPLITS]
    return pl.concat(parts)


def _read_split(name: str, split: str, task: Mapping[str, Any], path: Path) -> pl.DataFrame:
    frame = _read_file(path)
    columns = task["columns"]
    text_columns = [columns["text"]] if isinstance(columns["text"], str) else list(columns["text"])
    for role, column in [*(("text", c) for c in text_columns), ("label", columns["label"])]:
        if column not in frame.columns:
            raise InputError(
                f'{path}: there is no column "{column}" (it has {", ".join(frame.columns)}); '
                f"set tasks.{name}.columns.{role}."
            )
    for column in text_columns:
        if frame.schema[column] not in (pl.String, pl.Null):
            raise InputError(
                f'{path}: column "{column}" holds {frame.schema[column]}, not text; '
                f"set tasks.{name}.columns.text."
            )
    texts = frame.select(pl.concat_str(text_columns, separator=" ")).to_series()
    blank = (texts.is_null() | (texts.str.strip_chars().str.len_chars() == 0)).arg_true()
    if len(blank):
        raise InputError(
            f"{path}: row {blank[0] + 1} has an empty text ({len(blank)} in all); "
            "remove these rows or fill them in."
        )
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


def _read_file(path: Path) -> pl.DataFrame:
    readers = {
        ".csv": lambda: pl.read_csv(path, infer_schema_length=None),
        ".jsonl": lambda: pl.read_ndjson(path, infer_schema_length=None),
        ".ndjson": lambda: pl.read_ndjson(path, infer_schema_length=None),
        ".parquet": lambda: pl.read_parquet(path, hive_partitioning=False),
    }
    if path.suffix not in readers:
        raise InputError(
            f"{path}: texts are read from {', '.join(readers)} files; convert it to one."
        )
    try:
        frame = readers[path.suffix]()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; correct the path in the configuration.") from None
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(
            f"{path}: not a readable {path.suffix[1:]} file ({str(error).splitlines()[0]}); "
            "replace it with an intact copy."
        ) from None
    if not len(frame):
        raise InputError(f"{path}: the file holds no rows; texts are needed.")
    return frame


def _labels(name: str, task: Mapping[str, Any], column: pl.Series, path: Path) -> Sequence[int]:
    words = [word.strip() for word in task["labels"]]
    index: dict[Any, int]
    if task.get("values") is not None:
        index = {str(value): label for label, value in enumerate(task["values"])}
    elif column.dtype.is_integer():
        index = {str(label): label for label in range(len(words))}
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
        If the Hub can't be reached or does not have the file; says how to work offline.
    """
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    files = {}
    for split in SPLITS:
        file = task[split]
        if not file.endswith(".parquet"):
            raise InputError(
                f"tasks.{name}.{split}: {file!r} must be a Parquet file of the repository."
            )
        try:
            found = hf_hub_download(
                task["repository"], file, repo_type="dataset", revision=task["revision"]
            )
        except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
            raise InputError(
                f"tasks.{name}: could not fetch {file} of the data set {task['repository']} at "
                f"revision {task['revision'][:12]} from the Hugging Face Hub "
                f"({type(error).__name__}); check the names, or work offline with a copy of the "
                'file and "source: local".'
            ) from None
        files[split] = Path(found)
    return files
