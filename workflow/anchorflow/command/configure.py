"""Writes the configuration of a run of one's own, and splits a file of texts."""

import contextlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import polars as pl
import yaml

from anchorflow.config.configuration import complete_configuration
from anchorflow.config.errors import InputError
from anchorflow.config.named_files import files_of_texts
from anchorflow.config.named_models import HUB_NAME
from anchorflow.config.places import REPOSITORY, WORKFLOW
from anchorflow.prepare.samples import compared, compared_texts, draw_samples
from anchorflow.prepare.text_sources import read_file
from anchorflow.prepare.texts import TEXT_KINDS, may_be_another, read_texts
from anchorflow.schemas.texts import SPLITS
from anchorflow.store.replacing import replacing

CONFIGURATION = "config.yaml"
TEMPLATE = "Text: {text}\nLabel:{label}"
_DEFAULT = REPOSITORY / "config" / CONFIGURATION
_HEAD = """\
# Written by `anchorflow init`. `anchorflow check` checks it, `anchorflow run` runs it.
# Paths are relative to this folder; results are written to its folder results.
"""
_COLUMNS = {"text": "text", "label": "label"}
_TEST_SHARE, _MOST_TEST_TEXTS = 0.2, 1000


class Texts(NamedTuple):
    """Files of texts, and which columns they are in."""

    train: Path
    test: Path | None  # or some of the training texts
    text_column: str = "text"
    label_column: str = "label"
    quoting: str | None = None  # of CSV and TSV files


def write_configuration(
    folder: Path,
    models: Mapping[str, Any],
    tasks: Mapping[str, Any],
    parts: Mapping[str, pl.DataFrame] = MappingProxyType({}),
) -> Path:
    """Write a configuration of these models and tasks with the default run's analyses.

    ``parts`` are texts to write beside it, by the names of their Parquet files. Nothing is written
    if the folder has a configuration, or the new one or its texts would be refused.
    """
    for file in (folder, *folder.parents):
        if file.is_file():
            raise InputError(f"{file}: is a file; name another folder.")
    for file in (folder / name for name in (CONFIGURATION, *parts)):
        if file.exists():
            raise InputError(f"{file}: exists; move it away, or name another folder.")
    analyses = _analyses(_DEFAULT.read_text(encoding="utf-8"))
    named = (_as_yaml({"models": models}), _as_yaml({"tasks": tasks}))
    text = "\n".join([_HEAD, *named, analyses])
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for name, part in parts.items():
            part.write_parquet(folder / name)
        with contextlib.chdir(folder):  # where its paths start
            schema = WORKFLOW / "schemas" / "config.schema.yaml"
            config = yaml.safe_load(text)
            complete_configuration(config, schema)
            _check_texts(config)
    except BaseException:
        for name in parts:
            (folder / name).unlink(missing_ok=True)
        if is_new:
            folder.rmdir()
        raise
    with replacing(folder / CONFIGURATION) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return folder / CONFIGURATION


def _analyses(text: str) -> str:
    """What a configuration says from its seeds on, with their comment."""
    (start,) = re.finditer(r"^(?:#.*\n)*seeds:", text, re.MULTILINE)
    return text[start.start() :]


def _check_texts(config: Mapping[str, Any]) -> None:
    """Read the texts of local tasks and draw from them, as a run does."""
    sizes = config["test_examples"], config["demonstrations_per_label"]
    for name, task in config["tasks"].items():
        if task["source"] == "local":
            files = {
                split: files_of_texts(f"tasks.{name}.{split}", task[split]) for split in SPLITS
            }
            texts = read_texts(name, task, files)
            for seed in config["seeds"]:
                draw_samples(texts, seed, task["labels"], *sizes)


def _as_yaml(part: Mapping[str, Mapping[str, Any]]) -> str:
    """Block style for mappings, and lists and texts as JSON has them, on one line each."""
    ((section, entries),) = part.items()
    lines = [f"{section}:"]
    for name, settings in entries.items():
        lines.append(f"  {yaml.safe_dump(name).splitlines()[0]}:")  # quoted if it has to be
        lines += [f"    {key}: {_as_json(value)}" for key, value in settings.items()]
    return "\n".join([*lines, ""])


def _as_json(value: Any) -> str:
    """JSON that is YAML too, which does not allow some characters that are not seen."""
    written = json.dumps(value, ensure_ascii=False)
    return re.sub("[\x7f-\x9f\u2028\u2029\ufeff]", lambda sign: f"\\u{ord(sign[0]):04x}", written)


def model_settings(model: str, revision: str | None, folder: Path) -> dict[str, Any]:
    """The entry under ``models`` for a folder, a GGUF file, or a model of the Hub."""
    is_file = Path(model).is_file() and model.lower().endswith(".gguf")
    if is_file or Path(model).is_dir():
        if revision is not None:
            raise InputError(
                f"--revision: {model} is {'a file' if is_file else 'a folder'}, which has none; "
                "leave it out."
            )
        path = os.path.relpath(model, folder)
        return {"files": [path]} if is_file else {"path": path}
    # Without an owner, a folder that is not there is likelier.
    if "/" not in model or not HUB_NAME.fullmatch(model) or model.lower().endswith(".gguf"):
        raise InputError(
            f"{model}: no such folder or file; name a folder that save_pretrained wrote, a GGUF "
            "file, or a model of the Hub as owner/name."
        )
    return {"repository": model, **({} if revision is None else {"revision": revision})}


def name_of(written: str, otherwise: str) -> str:
    """The name of a file or folder as that of a task or model, which has no spaces."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", written).strip("._-")[:64] or otherwise


def packaged(section: str, name: str) -> dict[str, Any]:
    """An entry of the default configuration, or of the file that extends it."""
    for file in (_DEFAULT, _DEFAULT.with_name("full.yaml")):
        entries: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8")).get(section, {})
        if name in entries:
            entry: dict[str, Any] = entries[name]
            return entry
    raise KeyError(name)


def task_settings(
    texts: Texts, template: str, labels: Sequence[str] | None, folder: Path
) -> tuple[dict[str, Any], dict[str, pl.DataFrame]]:
    """The entry under ``tasks`` for files of texts, and files to write for it.

    These are parts of the training file, if there is no other for tests. Label words are the values
    of the label column if none are given. Others stand for the sorted values, in order. They begin
    with a space, which the template then does not end with, unless they have a line of their own.
    """
    rows = _rows(texts.train, texts)
    values = _sorted(rows["label"].unique())
    space = "" if template.endswith("\n{label}") else " "
    template = re.sub(r" +\{label\}$", "{label}", template)
    words = [f"{space}{str(word).strip()}" for word in (values if labels is None else labels)]
    if len(words) != len(values):
        raise InputError(
            f"{texts.train}: {len(values)} values in the column {texts.label_column} "
            f"({', '.join(map(str, values))}), and {len(words)} label words; name one for each."
        )
    settings: dict[str, Any] = {"source": "local", "template": template, "labels": words}
    parts = {}
    if texts.test is None:
        parts = _split(rows, texts.train)
        settings |= {name.partition(".")[0]: name for name in parts}
    else:
        known = set(map(str, values))
        for value in _rows(texts.test, texts)["label"]:
            if str(value) not in known:
                raise InputError(
                    f"{texts.test}: no text in {texts.train} has the label {value}; add some "
                    "there, or remove it here."
                )
        files = {"train": texts.train, "test": texts.test}
        settings |= {split: os.path.relpath(file, folder) for split, file in files.items()}
        columns = {"text": texts.text_column, "label": texts.label_column}
        settings |= {} if columns == _COLUMNS else {"columns": columns}
        settings |= {} if texts.quoting is None else {"quoting": texts.quoting}
    names = {str(value) for value in values}
    if names != {word.strip() for word in words} or any(name.isdigit() for name in names):
        settings["values"] = values
    return settings, parts


def _sorted(values: pl.Series) -> list[Any]:
    """By number if all are integers, which a CSV file has as text."""
    numbers = values.cast(pl.String).cast(pl.Int64, strict=False)
    return values.gather((values if numbers.null_count() else numbers).arg_sort()).to_list()


def _rows(file: Path, texts: Texts) -> pl.DataFrame:
    """The texts and labels of a file, in columns of these names."""
    if texts.text_column == texts.label_column:
        raise InputError(
            f"--text-column: {texts.text_column} is the column of labels; name that of the texts, "
            "or another with --label-column."
        )
    wanted = {texts.text_column: "text", texts.label_column: "label"}
    source = read_file(file, list(wanted), texts.label_column, texts.quoting)
    if lacking := [name for name in wanted if name not in source.columns]:
        raise InputError(
            f"{file}: no column {' and '.join(lacking)}, only {', '.join(source.columns)}; name "
            "them with --text-column and --label-column."
        )
    for name in wanted:
        if list(source.columns).count(name) > 1:
            raise InputError(f"{file}: several columns are called {name}; rename the others.")
    rows = source.rows.rename(wanted).fill_nan(None)
    for row in rows.with_row_index().filter(pl.any_horizontal(pl.all().is_null()))["index"]:
        raise InputError(f"{file}: row {row + 1} has no text or no label; complete or remove it.")
    if rows.is_empty():
        raise InputError(f"{file}: the file holds no rows; texts are needed.")
    if rows["text"].dtype not in TEXT_KINDS or may_be_another(source, rows["text"]):
        raise InputError(
            f"{file}: column {texts.text_column} holds numbers, or no text; name that of the texts "
            f"with --text-column ({', '.join(source.columns)})."
        )
    whole = rows["label"].dtype.is_float() and rows["label"].is_between(-(2**53), 2**53).all()
    if whole and (rows["label"] % 1 == 0).all():
        rows = rows.with_columns(pl.col("label").cast(pl.Int64))
    kind = rows["label"].dtype
    if not (kind.is_integer() or kind in (pl.String, pl.Categorical, pl.Enum, pl.Boolean)):
        raise InputError(
            f"{file}: column {texts.label_column} holds {kind}, not labels; name another with "
            "--label-column."
        )
    return rows


def _split(rows: pl.DataFrame, file: Path) -> dict[str, pl.DataFrame]:
    """Draw a fifth of each label's texts, about 1000 in all at most, as test texts.

    Copies of them are in neither part.
    """
    drawn = rows.sample(fraction=1, shuffle=True, seed=0)
    distinct = drawn.filter(compared().is_first_distinct())
    counts = dict(distinct["label"].value_counts().iter_rows())
    for label in _sorted(rows["label"].unique()):
        if counts.get(label, 0) < 2:
            raise InputError(
                f"{file}: the label {label} needs two different texts, one of them for tests; add "
                "some, or name a file of tests with --test."
            )
    share = min(_TEST_SHARE, _MOST_TEST_TEXTS / len(distinct))
    place = pl.int_range(pl.len()).over("label")
    test = distinct.filter(place < (pl.len().over("label") * share).ceil())
    train = drawn.filter(~compared().is_in(compared_texts(test["text"]).implode()))
    return {"train.parquet": train, "test.parquet": test}
