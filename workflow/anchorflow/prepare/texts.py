"""Labeled texts of one task, from any source, as one checked table."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from anchorflow.config.errors import InputError
from anchorflow.config.look_alikes import INVISIBLE, SEPARATING
from anchorflow.config.text_fields import FIELD_SEPARATOR, fields_of
from anchorflow.prepare.labels import labels_of
from anchorflow.prepare.samples import with_invisible, without_repeated
from anchorflow.prepare.text_sources import Source, read_file, read_splits
from anchorflow.random_draws import generator
from anchorflow.schemas.texts import SPLITS, TEXTS
from anchorflow.store.cell import Cell

log = logging.getLogger(__name__)

_LEAST_OF_LABEL = 100  # training texts of a rare label, which its share would leave too few

_NOTHING_SEEN = r"^[\s\p{Cc}\p{Cf}\p{Zl}\p{Zp}]*$"  # white space and invisible characters

TEXT_KINDS = (pl.String, pl.Categorical, pl.Enum)


def read_texts(
    name: str, task: Mapping[str, Any], files: Mapping[str, str | Path | Sequence[str | Path]]
) -> pl.DataFrame:
    """Read and check the training and test texts of one task from files.

    ``task`` has ``columns``, ``labels`` and optionally ``values``, ``quoting``, ``repeated``,
    ``invisible`` and ``train_examples``, as in the configuration. The rows of a split's several
    files follow each other.
    """
    column, sources = task["columns"]["label"], []
    for split in SPLITS:
        given = files[split]
        for path in [given] if isinstance(given, str | Path) else given:
            source = read_file(Path(path), _wanted(task), column, task.get("quoting"))
            sources.append((split, source))
    return _table(name, task, sources)


def read_hub_texts(name: str, task: Mapping[str, Any]) -> tuple[pl.DataFrame, str]:
    """Read and check the texts of one task from a data set on the Hugging Face Hub.

    ``task`` is as in :func:`read_texts`, with ``repository``, ``revision``, ``train``, ``test`` and
    optionally ``subset``. Also returns the commit that was read.
    """
    sources, commit = read_splits(name, task, _wanted(task))
    return _table(name, task, list(sources.items())), commit


def _wanted(task: Mapping[str, Any]) -> list[str]:
    """The columns that are read, each once."""
    return list(dict.fromkeys(column for _, column in _roles(task)))


def _roles(task: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The columns of each field and of the label, in the order in which a text joins fields."""
    columns = task["columns"]
    of_fields = [
        (field, column) for field in fields_of(columns) for column in _listed(columns[field])
    ]
    return [*of_fields, ("label", columns["label"])]


def _table(
    name: str, task: Mapping[str, Any], sources: Sequence[tuple[str, Source]]
) -> pl.DataFrame:
    checked = [_checked_rows(name, task, source) for _, source in sources]
    labels = labels_of(name, task, checked)
    parts: dict[str, list[pl.DataFrame]] = {split: [] for split in SPLITS}
    for (split, _), source, of_source in zip(sources, checked, labels, strict=True):
        texts = _joined(task, source)
        label = pl.Series("label", of_source, dtype=pl.Int32)
        parts[split].append(pl.DataFrame({"text": texts, "label": label}))
    splits = without_repeated(
        name, {split: pl.concat(frames) for split, frames in parts.items()}, task
    )
    splits["train"] = drawn_of_labels(splits["train"], task.get("train_examples"), name)
    return pl.concat(
        frame.select(
            pl.lit(name).alias("task"),
            pl.lit(split).alias("split"),
            pl.int_range(pl.len(), dtype=pl.Int32).alias("row"),
            "text",
            "label",
        )
        for split, frame in splits.items()
    )


def drawn_of_labels(train: pl.DataFrame, most: int | None, name: str) -> pl.DataFrame:
    """A random draw of about ``most`` training texts, in the source's order; all for None.

    Every label keeps its share, rounded up, but at least 100 texts if it has as many.
    """
    if most is None or len(train) <= most:
        return train
    order = generator(0, name, "training texts").permutation(len(train))
    share = (pl.len().over("label") * most / len(train)).ceil()
    place = pl.col("order").rank("ordinal").over("label")
    drawn = train.with_columns(order=pl.Series(order)).filter(
        place <= pl.max_horizontal(share, pl.lit(_LEAST_OF_LABEL))
    )
    log.info(
        "%s: %d of %d training texts are drawn; train_examples sets how many.",
        *(name, len(drawn), len(train)),
    )
    return drawn.drop("order")


def _joined(task: Mapping[str, Any], source: Source) -> pl.Series:
    """The texts: columns of a field are joined by a space, fields by ``FIELD_SEPARATOR``."""
    columns = task["columns"]
    fields = fields_of(columns)
    parts = source.rows.select(
        pl.concat_str(
            [pl.col(column).cast(pl.String) for column in _listed(columns[field])], separator=" "
        ).alias(field)
        for field in fields
    )
    if task.get("invisible") == "strip":
        spaced = pl.all().str.replace_all(SEPARATING.pattern, " ")
        parts = parts.select(spaced.str.replace_all(INVISIBLE.pattern, "").str.strip_chars())
    for field, part in zip(fields, parts, strict=True):
        empty = (part.is_null() | part.str.contains(_NOTHING_SEEN)).arg_true()
        if len(empty):
            raise InputError(
                f"{source.where}: row {empty[0] + 1} has an empty {field} ({len(empty)} in all); "
                "remove these rows or fill them in."
            )
        if len(fields) > 1 and len(found := part.str.contains(FIELD_SEPARATOR).arg_true()):
            raise InputError(
                f"{source.where}: row {found[0] + 1} has the character U+001F in its {field}, "
                "which separates fields; remove it."
            )
    texts = parts.select(pl.concat_str(pl.all(), separator=FIELD_SEPARATOR)).to_series()
    if task.get("invisible") == "refuse" and len(found := with_invisible(texts).arg_true()):
        raise InputError(
            f"{source.where}: row {found[0] + 1} has invisible characters or white space around "
            f'its text ({len(found)} in all); remove them, or leave that to "invisible: strip".'
        )
    return texts


def _listed(columns: str | Sequence[str]) -> list[str]:
    return [columns] if isinstance(columns, str) else list(columns)


def _checked_rows(name: str, task: Mapping[str, Any], source: Source) -> Source:
    """A source that has rows, and text and labels in its columns."""
    where, columns = source.where, ", ".join(source.columns)
    roles = [(column, role, f"tasks.{name}.columns.{role}") for role, column in _roles(task)]
    for column, _, key in roles if source.columns else ():
        if column not in source.columns:
            raise InputError(
                f'{where}: there is no column "{column}" (it has {columns}); set {key}.'
            )
        if list(source.columns).count(column) > 1:
            raise InputError(
                f'{where}: several columns are called "{column}"; rename one, or set {key}.'
            )
    if source.rows.is_empty():
        raise InputError(f"{where}: the file holds no rows; texts are needed.")
    for column, role, key in roles:
        values = source.rows[column]
        kind: Any = values.dtype
        if role != "label" and kind not in (*TEXT_KINDS, pl.Null):
            raise InputError(f'{where}: column "{column}" holds {kind}, not text; set {key}.')
        if role != "label" and may_be_another(source, values):
            raise InputError(
                f'{where}: column "{column}" holds numbers alone, and there are others '
                f"({columns}); set {key}, or leave the others out of the file."
            )
        if kind.is_nested() or kind == pl.Binary:
            raise InputError(f'{where}: column "{column}" holds {kind}, not labels; set {key}.')
    # As JSON and Parquet write a missing number.
    return source._replace(rows=source.rows.fill_nan(None))


def may_be_another(source: Source, texts: pl.Series) -> bool:
    """Whether a column of texts is probably another one, such as that of row numbers."""
    written = texts.cast(pl.String).drop_nulls()
    numbers = len(written) > 0 and written.cast(pl.Float64, strict=False).null_count() == 0
    return source.all_text and len(source.columns) > source.rows.width and numbers


def prepare(job: Cell) -> None:
    """Read and check the labeled texts of one task."""
    name, task = job.wildcards.task, job.spec
    if task["source"] == "hub":
        texts, commit = read_hub_texts(name, task)
        job.write(TEXTS, texts, {**task, "commit": commit})
    else:
        files = {split: job.input[split] for split in SPLITS}
        job.write(TEXTS, read_texts(name, task, files), {**task, "files": files})
