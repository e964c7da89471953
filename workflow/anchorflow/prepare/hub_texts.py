"""Texts of a data set on the Hugging Face Hub, loaded by the library ``datasets``.

Each commit has its own folder in the library's cache: offline, the library takes whatever it has of
a repository, which could be another revision.
"""

import contextlib
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
from huggingface_hub import HfApi

from anchorflow.config.errors import InputError, disk_is_full, is_out_of_memory
from anchorflow.prepare.text_files import Source

_COMMIT = re.compile("[0-9a-f]{40}")
_SPLITS = ("train", "test")


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
            _check_splits(name, task, _split_names(builder))
            _keep_texts(builder.config, wanted)
            if not Path(builder.cache_dir, "dataset_info.json").is_file():
                builder.download_and_prepare()
            return {split: _source(name, task, builder, split, wanted) for split in _SPLITS}, commit


def _keep_texts(config: datasets.BuilderConfig, columns: Sequence[str]) -> None:
    """Keep CSV files as written; pandas would read "NA" as missing, and "01" as a number."""
    if hasattr(config, "keep_default_na"):
        config.keep_default_na = config.na_filter = False
        config.converters = dict.fromkeys(columns, str)


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

    If it can't be written, a temporary one with links to what has been prepared.
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


def _split_names(builder: datasets.DatasetBuilder) -> list[str]:
    """The splits' names, without a download; for a prepared data set, from its description."""
    return [str(split) for split in builder.config.data_files or builder.info.splits or ()]


def _check_splits(name: str, task: Mapping[str, Any], there: Sequence[str]) -> None:
    for split in _SPLITS:
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
