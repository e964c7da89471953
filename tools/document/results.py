"""docs/results.md, made from the tables of a finished default run so that no number is copied.

The rows of averages over tasks lie in ``docs/results``, with what the page says about the run. A
test makes the page again from there, without a run.
"""

import json
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import yaml
from snakemake.utils import update_config

from anchorflow.analyses.flow.plot import plot_flow
from anchorflow.claims.summarize import load_claims
from anchorflow.claims.verdicts import NOT_COMPARED, NOT_MEASURED, UNDECIDED
from anchorflow.config.cell_names import is_untrained
from anchorflow.config.configuration import complete_configuration
from anchorflow.config.errors import InputError
from anchorflow.config.places import REPOSITORY
from anchorflow.present.page import cell
from anchorflow.present.style import PAGE
from anchorflow.statistics.by_task import AVERAGE
from tools.document import DOCS, SCHEMA_FILE
from tools.document.markdown import page, readable
from tools.document.runs import FinishedRun, KeptRun, read_tables

_DEFAULT_CONFIGURATION = REPOSITORY / "config" / "config.yaml"
_EXTENSION = REPOSITORY / "config" / "full.yaml"
EXTENDED, EXTENDED_TASKS = "extended", "extended_tasks"  # claims and tasks of the extended run

# What the page quotes and shows.
_TABLES = (
    "accuracy",
    "claims",
    "compression",
    "flow",
    "isolation",
    "landing",
    "regressors",
    "reweighting",
    "theory",
    "transplant",
)
FIGURES = ("compression", "isolation", "kernel", "transplant")
_OF_CLAIMS = ("statement", "effect", "control_effect", "null_effect", "verdict", "reason")


def write_results(run: Path = REPOSITORY, docs: Path = DOCS) -> None:
    """Write docs/results.md, what it is made from, and the figures that it shows.

    ``run`` is the folder of a finished default run. It may also be the one extended by
    ``config/full.yaml``, which replaces the default run in its folder: then only its claims are
    new, beside what was kept of the default run.
    """
    finished = FinishedRun.read(run)
    files = finished.tables()
    accuracy = read_tables({"accuracy": files["accuracy"]})["accuracy"]
    default = _configuration(_DEFAULT_CONFIGURATION)
    extended = _configuration(_DEFAULT_CONFIGURATION, _EXTENSION)
    kept = KeptRun.read(docs / "results") if (docs / "results").is_dir() else KeptRun({}, {})
    if _is_of(accuracy, default):
        if EXTENDED not in kept.tables or EXTENDED_TASKS not in kept.facts:
            raise InputError(
                "docs/results has no claims of the extended run, which the page quotes too; after "
                "`make full`, write them by `make docs`."
            )
        tables = read_tables({name: files[name] for name in _TABLES})
        facts = _facts(default, finished.software)
        tables[EXTENDED], facts[EXTENDED_TASKS] = kept.tables[EXTENDED], kept.facts[EXTENDED_TASKS]
        plot_average(run, docs / "flow.png")
        figures = finished.figures()
        for name in FIGURES:
            shutil.copyfile(figures[name], docs / f"{name}.png")
    elif _is_of(accuracy, extended):
        claims = read_tables({EXTENDED: files["claims"]})
        tables = {**kept.tables, **claims}
        facts = {**kept.facts, EXTENDED_TASKS: list(extended["tasks"])}
    else:
        raise InputError(
            f"{run / 'results'}: not a run of "
            f"{_DEFAULT_CONFIGURATION.relative_to(REPOSITORY)}; run that."
        )
    _write(KeptRun(facts, {name: _averages(table) for name, table in tables.items()}), docs)


def _write(kept: KeptRun, docs: Path) -> None:
    text = results_page(kept)
    shutil.rmtree(docs / "results", ignore_errors=True)  # an earlier page may have had more tables
    (docs / "results").mkdir()
    for name, table in kept.tables.items():
        table.write_csv(docs / "results" / f"{name}.csv")
    facts = json.dumps(kept.facts, indent=2) + "\n"
    (docs / "results" / "run.json").write_text(facts, encoding="utf-8")
    (docs / "results.md").write_text(text, encoding="utf-8")


def results_page(kept: KeptRun) -> str:
    """The text of the page."""
    claims = kept.tables["claims"]
    asked = [claim.name for claim in load_claims() if claim.question]
    is_asked = pl.col("claim").is_in(asked)
    questions = {name: kept.tables[name].filter(is_asked) for name in ("claims", EXTENDED)}
    counts = claims.pivot(
        "verdict", index="family", values="claim", aggregate_function="len", maintain_order=True
    )
    open_ones = (NOT_MEASURED, UNDECIDED, NOT_COMPARED)
    return page(
        "results.md",
        quote=partial(quote, kept),
        run=kept.facts,
        claims=claims,
        verdicts=readable(counts.fill_null(0)),
        questions={name: readable(_with_intervals(rows)) for name, rows in questions.items()},
        asked=len(asked),
        measured={name: _others(rows, NOT_MEASURED) for name, rows in questions.items()},
        decided={name: _others(rows, *open_ones) for name, rows in questions.items()},
    )


def quote(kept: KeptRun, name: str, column: str = "", **conditions: Any) -> str:
    """A column of the one matching row of a table, or its estimate with the interval."""
    rows = kept.rows(name, **conditions)
    if rows.height != 1:
        raise ValueError(f"{rows.height} rows of {name} have {conditions}.")
    return _cell(rows.row(0, named=True), column)


def _cell(row: Mapping[str, Any], column: str = "") -> str:
    if not column:
        estimate = "effect" if "effect" in row else "mean"
        return cell(row[estimate], row["low"], row["high"])
    value = row[column]
    return cell(value, None, None) if value is None or isinstance(value, float) else str(value)


def _with_intervals(claims: pl.DataFrame) -> pl.DataFrame:
    rows = [
        [_cell(row, "" if column == "effect" else column) for column in _OF_CLAIMS]
        for row in claims.iter_rows(named=True)
    ]
    return pl.DataFrame(rows, schema=list(_OF_CLAIMS), orient="row")


def _others(claims: pl.DataFrame, *verdicts: str) -> int:
    """The number of claims with other verdicts than these."""
    return claims.filter(~pl.col("verdict").is_in(verdicts)).height


def plot_average(run: Path, path: Path) -> None:
    """Plot the information flow averaged over tasks alone, which the first page has room for."""
    folder = run / "results"
    (summary,) = (folder / "summaries" / "flow").glob("*.parquet")
    files = sorted((folder / "flow").glob("*/*/*.parquet"))
    twins = [pl.read_parquet(file) for file in files if is_untrained(file.parts[-3])]
    config = _configuration(_DEFAULT_CONFIGURATION)
    plot_flow(
        pl.read_parquet(summary).filter(task=AVERAGE),
        {**config["figures"], "panel_width": PAGE},
        config["statistics"]["confidence"],
        {"png": path},
        pl.concat(twins) if twins else None,
    )


def _averages(table: pl.DataFrame) -> pl.DataFrame:
    return table.filter(task=AVERAGE) if "task" in table.columns else table


def _facts(config: Mapping[str, Any], software: Mapping[str, str]) -> dict[str, Any]:
    """What the page says about the default run."""
    return {
        "models": list(config["models"]),
        "tasks": list(config["tasks"]),
        "seeds": config["seeds"],
        "test_examples": config["test_examples"],
        "demonstrations_per_label": config["demonstrations_per_label"],
        "confidence": config["statistics"]["confidence"],
        "kernel_tokens": config["kernel"]["demonstration_tokens"],
        "texts_per_label": config["reweighting"]["examples_per_label"],
        "software": dict(software),
    }


def _configuration(*files: Path) -> dict[str, Any]:
    """Configuration files, of which later ones add to earlier ones, with all defaults."""
    config: dict[str, Any] = {}
    for file in files:
        update_config(config, yaml.safe_load(file.read_text(encoding="utf-8")))
    complete_configuration(config, SCHEMA_FILE)
    return config


def _is_of(accuracy: pl.DataFrame, config: Mapping[str, Any]) -> bool:
    """Whether a run's models, tasks and counts are those of a configuration."""
    seeds, tasks = len(config["seeds"]), config["tasks"]
    examples = seeds * config["test_examples"]
    counts = {**dict.fromkeys(tasks, examples), AVERAGE: examples * len(tasks)}
    return set(accuracy.select("model", "task", "seeds", "examples").iter_rows()) == {
        (model, task, seeds, count) for model in config["models"] for task, count in counts.items()
    }
