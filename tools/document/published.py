"""docs/published: a page for each published run, beside the papers' numbers, and one across them.

``make publish RUN=folder`` makes a page from the tables of a finished run of one model, and with
``DISPUTES=1`` a section of that page from a second run. The tables that a page is made from lie
beside it, and a test makes it again from them.
"""

import argparse
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import yaml
from snakemake.utils import update_config

from anchorflow.config.errors import InputError
from anchorflow.config.places import REPOSITORY
from anchorflow.config.stages import table_at
from anchorflow.statistics.by_task import AVERAGE
from anchorflow.store.all_tables import TABLES as SCHEMAS
from anchorflow.store.checksums import read_json, sha256_of
from anchorflow.store.parquet import read_settings, read_table, table_writer
from tools.document import DOCS
from tools.document.published_across import page_across
from tools.document.published_disputes import DISPUTED
from tools.document.published_run import FIGURES, TABLES, page_of
from tools.document.runs import DISPUTES, FinishedRun, KeptRun, read_tables

PUBLISHED = DOCS / "published"


def publish(
    run: Path, configurations: Sequence[str], folder: Path = PUBLISHED, *, disputes: bool = False
) -> Path:
    """Write the page of a finished run of one model, what it is made from, and the page across.

    ``configurations`` are the files with which the run is repeated, in order. With ``disputes``, it
    is a second run of a model that has a page, which gets a section on it. Returns the folder of
    the run's files.
    """
    finished = FinishedRun.read(run)
    tables, figures = finished.tables(), finished.figures()
    needed = ["claims", "costs", *([] if disputes else ["reweighting"])]
    quoted_of_disputes = [name for name, parts in DISPUTED.items() if parts]
    quoted = ("claims", "costs", *(quoted_of_disputes if disputes else TABLES))
    shown = tuple(DISPUTED if disputes else FIGURES)
    if lacking := [name for name in needed if name not in tables]:
        raise InputError(f"{run}: a page needs the tables {', '.join(lacking)}; measure them.")
    claims = pl.read_csv(tables["claims"], infer_schema_length=None)
    model, *others = claims["model"].unique(maintain_order=True)
    if others:
        raise InputError(f"{run}: a page is about one model, and this run has {1 + len(others)}.")
    tasks = [task for task in claims["task"].unique(maintain_order=True) if task != AVERAGE]
    _check_configuration(configurations, model, tasks)
    kept = {name: tables[name] for name in quoted if name in tables}
    files = {f"{name}.csv": file for name, file in kept.items()}
    files |= {f"{name}.png": figures[name] for name in shown if name in figures}
    for name in {*quoted, *shown} & tables.keys():
        summary = f"results/summaries/{name}/{model}.parquet"
        if summary in finished.sums:
            files[f"{name}.parquet"] = finished.file(summary)
            read_table(files[f"{name}.parquet"], SCHEMAS[table_at(summary)])  # checks its schema
    card = read_json(finished.file(f"results/models/{model}/model.json"), remedy="run again.")
    texts = {task: finished.file(f"results/texts/{task}.parquet") for task in tasks}
    contents = {name: _content(file) for name, file in sorted(files.items())}
    facts = {
        "model": {"name": model, **{key: card.get(key) for key in ("sha256", "revision", "dtype")}},
        "layers": card["layers"],
        "heads": card["query_heads"],
        "configurations": list(configurations),
        "software": finished.software,
        "texts": {task: _source(file) for task, file in texts.items()},
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()},
    }
    facts = _without_folders(facts)
    page = folder / str(model)
    text = page_of(_with_other_part(KeptRun(facts, read_tables(kept)), page, disputes))
    contents["run.json"] = (json.dumps(facts, indent=2) + "\n").encode()
    of_run = page / DISPUTES if disputes else page
    of_run.mkdir(parents=True, exist_ok=True)
    for file in of_run.iterdir():  # an earlier page may have had more files
        if file.is_file():
            file.unlink()
    for name, content in contents.items():
        (of_run / name).write_bytes(content)
    (page / "README.md").write_text(text, encoding="utf-8")
    (folder / "README.md").write_text(page_across(folder), encoding="utf-8")
    return of_run


def _with_other_part(part: KeptRun, page: Path, disputes: bool) -> KeptRun:
    """Both runs of a model's page, of which one is ``part`` and the other is read."""
    known = KeptRun.read(page) if (page / "run.json").is_file() else None
    if disputes and known is None:
        raise InputError(
            f"{page}: a run of disputes is a section of a model's page, and there is none; publish "
            "the run of config/published/analyses.yaml first."
        )
    if known is None:
        return part
    first, second = (known, part) if disputes else (part, known.disputes)
    if second is None:
        return first
    for key in ("model", "layers", "heads"):
        one, other = first.facts[key], second.facts[key]
        if key == "model":  # either may be rounded: the pages give the number format of each
            other = {**other, "dtype": one["dtype"]}
        if one != other:
            raise InputError(
                f"{page}: both runs of a page are of the same weights, and {key} differs: "
                f"{one} and {other}; run the same model."
            )
    if list(first.facts["texts"]) != list(second.facts["texts"]):
        raise InputError(f"{page}: both runs of a page have the same tasks, in the same order.")
    return replace(first, disputes=second)


def _check_configuration(files: Sequence[str], model: str, tasks: Sequence[str]) -> None:
    config: dict[str, Any] = {}
    for file in files:
        if not Path(file).is_file():
            raise InputError(f"{file}: no such configuration file; name those of the run.")
        update_config(config, yaml.safe_load(Path(file).read_text(encoding="utf-8")) or {})
    if list(config.get("models", {})) != [model] or list(config.get("tasks", {})) != [*tasks]:
        raise InputError(
            f"{' '.join(files)}: not the configuration of a run of {model} on {', '.join(tasks)}; "
            "name the files of the run, in order."
        )


def _content(file: Path) -> bytes:
    """What a file holds, without folders of one's own machine in a table's settings."""
    given = read_settings(file) if file.suffix == ".parquet" else {}
    if _without_folders(given) == given:
        return file.read_bytes()
    table = pq.read_table(file)
    settings = json.dumps(_without_folders(given), ensure_ascii=False)
    table = table.replace_schema_metadata({**table.schema.metadata, b"settings": settings})
    content = io.BytesIO()
    with table_writer(content, table.schema) as writer:
        writer.write_table(table)
    return content.getvalue()


def _without_folders(given: Any) -> Any:
    """Settings with the names of files in place of absolute paths."""
    if isinstance(given, Mapping):
        return {key: _without_folders(value) for key, value in given.items()}
    if isinstance(given, list):
        return [_without_folders(value) for value in given]
    if isinstance(given, str) and given.startswith("/") and len(Path(given).parts) > 2:
        return Path(given).name
    return given


def _source(texts: Path) -> dict[str, Any]:
    """Where a task's texts are from, and the SHA-256 of the run's table of them."""
    settings = read_settings(texts)
    keys = ("source", "repository", "revision", "train", "test")
    known = {key: settings.get(key) for key in keys}
    return {**known, "sha256": sha256_of(texts)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tools.document.published")
    parser.add_argument("run", type=Path, help="folder of a finished run")
    parser.add_argument("configuration", nargs="+", help="the run's configuration files, in order")
    parser.add_argument(
        "--disputes", action="store_true", help="a second run of a model that has a page"
    )
    given = parser.parse_args()
    try:
        written = publish(given.run, given.configuration, disputes=given.disputes)
        print(f"Written: {written.relative_to(REPOSITORY)}")
    except InputError as error:
        raise SystemExit(str(error)) from None
