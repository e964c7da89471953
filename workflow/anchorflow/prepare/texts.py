"""Labeled texts of one task, from any source, as one checked table."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from anchorflow.config.errors import InputError
from anchorflow.config.text_fields import FIELD_SEPARATOR, fields_of
from anchorflow.prepare.hub_texts import read_splits
from anchorflow.prepare.text_files import Source, read_file
from anchorflow.random_draws import generator

log = logging.getLogger(__name__)

SPLITS = ("train", "test")

_LEAST_OF_LABEL = 100  # training texts of a rare label, which its share would leave too few

_TEXT = (pl.String, pl.Categorical, pl.Enum)


def read_texts(
    name: str, task: Mapping[str, Any], files: Mapping[str, str | Path | Sequence[str | Path]]
) -> pl.DataFrame:
    """Read and check the training and test texts of one task from files.

    Parameters
    ----------
    name : str
        The task's name, for error sentences and the ``task`` column.
    task : mapping
        ``columns``, ``labels`` and optionally ``values`` and ``train_examples``, as in the
        configuration.
    files : mapping
        Path of each split's file, or paths of several, whose rows follow each other.

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
    splits = {}
    for split in SPLITS:
        given = files[split]
        frames = []
        for path in [given] if isinstance(given, str | Path) else given:
            source = read_file(Path(path), _wanted(task), task["columns"]["label"])
            frames.append(_checked(name, task, source))
        splits[split] = pl.concat(frames)
    return _table(name, splits, task.get("train_examples"))


def read_hub_texts(name: str, task: Mapping[str, Any]) -> tuple[pl.DataFrame, str]:
    """Read and check the texts of one task from a data set on the Hugging Face Hub.

    Parameters
    ----------
    name : str
        As in ``read_texts``.
    task : mapping
        As in ``read_texts``, with ``repository``, ``revision``, ``train``, ``test`` and optionally
        ``subset``.

    Returns
    -------
    DataFrame
        As of ``read_texts``.
    str
        The commit that was read.

    Raises
    ------
    InputError
        As ``read_texts``; and if there is no such data set, subset or split, or the Hub can't be
        reached.
    """
    sources, commit = read_splits(name, task, _wanted(task))
    splits = {split: _checked(name, task, source) for split, source in sources.items()}
    return _table(name, splits, task.get("train_examples")), commit


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


def _table(name: str, splits: Mapping[str, pl.DataFrame], most: int | None) -> pl.DataFrame:
    splits = {**splits, "train": drawn_of_labels(splits["train"], most, name)}
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
        name,
        len(drawn),
        len(train),
    )
    return drawn.drop("order")


def _checked(name: str, task: Mapping[str, Any], source: Source) -> pl.DataFrame:
    """The rows of one source: columns text and label, the index of the label."""
    roles = _roles(task)
    frame = _rows(name, roles, source)
    texts = _joined(frame, task["columns"], source)
    labels = _labels(name, task, frame[task["columns"]["label"]], source)
    return pl.DataFrame({"text": texts, "label": pl.Series(labels, dtype=pl.Int32)})


def _joined(frame: pl.DataFrame, columns: Mapping[str, Any], source: Source) -> pl.Series:
    """The texts: columns of a field are joined by a space, fields by ``FIELD_SEPARATOR``."""
    fields = fields_of(columns)
    parts = frame.select(
        pl.concat_str(
            [pl.col(column).cast(pl.String) for column in _listed(columns[field])], separator=" "
        ).alias(field)
        for field in fields
    )
    for field, part in zip(fields, parts, strict=True):
        empty = (part.is_null() | (part.str.strip_chars().str.len_chars() == 0)).arg_true()
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
    return parts.select(pl.concat_str(pl.all(), separator=FIELD_SEPARATOR)).to_series()


def _listed(columns: str | Sequence[str]) -> list[str]:
    return [columns] if isinstance(columns, str) else list(columns)


def _rows(name: str, roles: Sequence[tuple[str, str]], source: Source) -> pl.DataFrame:
    if source.columns:
        _check_names(name, roles, source)
    if source.rows.is_empty():
        raise InputError(f"{source.where}: the file holds no rows; texts are needed.")
    frame = source.rows
    if not source.typed:
        frame = frame.select(_typed(column) for column in frame)
    _check_kinds(name, roles, frame.schema, source)
    return frame


def _typed(column: pl.Series) -> pl.Series:
    """The column as integers, other numbers, or truth values if all entries are; else as text."""
    written = column.set(column == "", None)
    numbers = written.cast(pl.Int64, strict=False), written.cast(pl.Float64, strict=False)
    truth = written.replace_strict({"true": True, "false": False}, default=None)
    for values in (*numbers, truth.cast(pl.Boolean)):
        if values.null_count() == written.null_count() < len(written):
            return values
    return written


def _check_names(name: str, roles: Sequence[tuple[str, str]], source: Source) -> None:
    for role, column in roles:
        key = f"tasks.{name}.columns.{role}"
        if column not in source.columns:
            raise InputError(
                f'{source.where}: there is no column "{column}" (it has '
                f"{', '.join(source.columns)}); set {key}."
            )
        if f"{column}_duplicated_0" in source.columns:  # polars' name for a second one
            raise InputError(
                f'{source.where}: several columns are called "{column}"; rename one, or set {key}.'
            )


def _check_kinds(
    name: str, roles: Sequence[tuple[str, str]], kinds: Mapping[str, Any], source: Source
) -> None:
    for role, column in roles:
        kind, key = kinds[column], f"tasks.{name}.columns.{role}"
        if role != "label" and kind not in (*_TEXT, pl.Null):
            raise InputError(
                f'{source.where}: column "{column}" holds {kind}, not text; set {key}.'
            )
        if kind.is_nested() or kind == pl.Binary:
            raise InputError(
                f'{source.where}: column "{column}" holds {kind}, not labels; set {key}.'
            )


def _labels(name: str, task: Mapping[str, Any], column: pl.Series, source: Source) -> Sequence[int]:
    words = [word.strip() for word in task["labels"]]
    index: dict[Any, int]
    if source.classes is not None:
        index = _classes(name, task, source.where, source.classes)
    elif task.get("values") is not None:
        index = {str(value): label for label, value in enumerate(task["values"])}
    elif column.dtype.is_integer():
        index = _indices(name, words, source.where)
    elif column.dtype == pl.Boolean:
        index = {word.capitalize(): label for label, word in enumerate(words)}
    else:
        index = {word: label for label, word in enumerate(words)}
    labels = []
    for row, value in enumerate(column.to_list()):
        if value is None or str(value) not in index:
            raise InputError(
                f"{source.where}: row {row + 1} has the label {value!r}, which is none of "
                f"{', '.join(index)}; correct it, or set tasks.{name}.labels and "
                f"tasks.{name}.values."
            )
        labels.append(index[str(value)])
    return labels


def _indices(name: str, words: Sequence[str], where: str) -> dict[Any, int]:
    index = {str(label): label for label in range(len(words))}
    if any(index.get(word, label) != label for label, word in enumerate(words)):
        raise InputError(
            f"{where}: the labels are integers, which could be {', '.join(words)} or their "
            f"indices; set tasks.{name}.values."
        )
    return index


def _classes(
    name: str, task: Mapping[str, Any], where: str, classes: Sequence[str]
) -> dict[Any, int]:
    """The index of each class's label word: that in ``values``, by name or number, or its own."""
    named = f"the label column's classes are {', '.join(classes)}"
    words = [word.strip() for word in task["labels"]]
    if task.get("values") is None:
        if len(classes) != len(words):
            raise InputError(
                f"{where}: {named}, {len(classes)} for {len(words)} label words; give one word per "
                f"class in tasks.{name}.labels, or the words' classes in tasks.{name}.values."
            )
        label_of = {word.casefold(): label for label, word in enumerate(words)}
        for label, known in enumerate(classes):
            if label_of.get(known.casefold(), label) != label:
                raise InputError(
                    f'{where}: {named}, in this order, so "{known}" would get the label word '
                    f'"{words[label]}"; give tasks.{name}.labels in the same order, or set '
                    f"tasks.{name}.values."
                )
        return _indices(name, words, where)
    numbers = {known: number for number, known in enumerate(classes)}
    numbers = {str(number): number for number in range(len(classes))} | numbers
    index = {}
    for label, value in enumerate(task["values"]):
        # Not isinstance: True is no class number.
        number = value if type(value) is int else numbers.get(str(value), -1)
        if not 0 <= number < len(classes) or str(number) in index:
            raise InputError(
                f"{where}: {named}, but {value!r} in tasks.{name}.values is none of them or "
                "repeats one; give the name or number of one class per label word."
            )
        index[str(number)] = label
    return index
