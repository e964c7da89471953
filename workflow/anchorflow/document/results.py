"""docs/results.md, quoted from the tables of a finished default run so that no number is copied.

``make docs`` renders the template ``results.md``, in which every number is a call of a method of
:class:`Quoting`. What the page quotes is saved in ``docs/results``. A test renders the page from
there, without a run, and so detects a page or a file that was changed by hand.
"""

import csv
import hashlib
import io
import json
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import yaml
from snakemake.utils import update_config

from anchorflow.analyses.flow.plot import plot_flow
from anchorflow.claims.summarize import load_claims
from anchorflow.claims.verdicts import NOT_COMPARED, NOT_MEASURED, UNDECIDED, VERDICTS
from anchorflow.config.cell_names import is_untrained
from anchorflow.config.configuration import complete_configuration
from anchorflow.config.errors import InputError
from anchorflow.document import ROOT
from anchorflow.document.configuration import SCHEMA_FILE
from anchorflow.document.finished import FinishedRun
from anchorflow.document.markdown import markdown_table, page
from anchorflow.present.page import cell
from anchorflow.present.style import PAGE
from anchorflow.statistics.by_task import AVERAGE
from anchorflow.store.checksums import sha256_of

DOCS = ROOT / "docs"
_DEFAULT_CONFIGURATION = ROOT / "config" / "config.yaml"
_EXTENSION = ROOT / "config" / "full.yaml"
EXTENDED = "extended"  # the claims of the extended run

_ESTIMATES = ("mean", "effect")  # columns that have an interval
_INTERVAL = ("low", "high")
_ROUNDED = ("control_effect", "null_effect", "milliseconds")  # like estimates, without an interval


class QuotingError(ValueError):
    """A quoted value does not exist, or several rows match where one is expected."""


@dataclass(frozen=True)
class Results:
    """Tables of a run by their names, with cells as in the CSV files, and its facts."""

    tables: Mapping[str, Sequence[Mapping[str, str]]]
    facts: Mapping[str, Any]


def write(run: Path = ROOT, docs: Path = DOCS) -> None:
    """Write docs/results.md, what it quotes, and the figures that it shows.

    Of the default run extended by ``config/full.yaml``, which replaces it in its folder, the claims
    are quoted beside what was quoted of the default run.

    Parameters
    ----------
    run : path
        The folder of a finished default run, or of an extended one.

    Raises
    ------
    InputError
        If there is no such run, in which case nothing is written.
    QuotingError
        If the template quotes what the run does not have.
    """
    extended = read_extended(run)
    is_default = extended is None
    if extended is not None:
        results = read_quoted(docs / "results")
    else:
        results, extended = read_run(run), _of_extended(read_quoted(docs / "results"))
        if "figures.flow" in results.facts:
            plot_average(run, docs / "flow.png")
            drawn = {"figures.flow": sha256_of(docs / "flow.png")}
            results = Results(results.tables, {**results.facts, **drawn})
    results = Results({**results.tables, **extended.tables}, {**results.facts, **extended.facts})
    text, quoted = results_page(results)
    (docs / "results.md").write_text(text, encoding="utf-8")
    folder = docs / "results"
    folder.mkdir(exist_ok=True)
    files = quoted_files(quoted)
    for left in set(folder.iterdir()) - {folder / name for name in files}:
        left.unlink()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    for fact in quoted.facts:
        name = fact.removeprefix("figures.")
        if is_default and name not in (fact, "flow"):
            (figure,) = (run / "results" / "figures" / name).glob("*.png")
            shutil.copyfile(figure, docs / f"{name}.png")


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


def read_run(run: Path) -> Results:
    """All tables and facts of a finished default run.

    Facts are the default configuration's values by dotted keys (``statistics.confidence``), the
    names of ``models`` and ``tasks``, versions (``software.torch``), and the SHA-256 of each
    figure (``figures.flow``) if the run has one model.

    Raises
    ------
    InputError
        If the run is not finished, not of the default configuration's models, tasks, seeds and
        number of texts, or if a file is not what the run wrote.
    """
    finished = FinishedRun.read(run)
    tables = {name: _read_csv(file) for name, file in finished.tables().items()}
    config = _configuration(_DEFAULT_CONFIGURATION)
    if not _is_of(tables["accuracy"], config):
        raise InputError(
            f"{run / 'results'}: not a run of {_DEFAULT_CONFIGURATION.relative_to(ROOT)}; run that."
        )
    names = {"models": list(config["models"]), "tasks": list(config["tasks"])}
    facts = {**_flattened(config), **names, **_flattened({"software": finished.software})}
    if len(names["models"]) > 1:
        return Results(tables, facts)
    figures = finished.figures().items()
    return Results(tables, facts | {f"figures.{name}": sha256_of(file) for name, file in figures})


def read_extended(run: Path) -> Results | None:
    """The claims and tasks of a finished run of both configurations; None if it is another one.

    Raises
    ------
    InputError
        If the run is not finished, or a file is not what the run wrote.
    """
    tables = FinishedRun.read(run).tables()
    accuracy = _read_csv(tables["accuracy"])
    config = _configuration(_DEFAULT_CONFIGURATION, _EXTENSION)
    if _is_of(accuracy, _configuration(_DEFAULT_CONFIGURATION)) or not _is_of(accuracy, config):
        return None
    facts = {f"{EXTENDED}.tasks": list(config["tasks"])}
    return Results({EXTENDED: _read_csv(tables["claims"])}, facts)


def _of_extended(saved: Results) -> Results:
    """What was quoted of the extended run.

    Raises
    ------
    InputError
        If nothing was.
    """
    facts = {key: fact for key, fact in saved.facts.items() if key.startswith(f"{EXTENDED}.")}
    if EXTENDED not in saved.tables or not facts:
        raise InputError(
            "docs/results has no claims of the extended run, which the page quotes too; after "
            "`make full`, write them by `make docs`."
        )
    return Results({EXTENDED: saved.tables[EXTENDED]}, facts)


def read_quoted(folder: Path) -> Results:
    """What :func:`write` saved in ``docs/results``."""
    tables = {file.stem: _read_csv(file) for file in folder.glob("*.csv")}
    return Results(tables, json.loads((folder / "run.json").read_text(encoding="utf-8")))


def quoted_files(quoted: Results) -> dict[str, str]:
    """The files of ``docs/results`` and their contents."""
    files = {f"{name}.csv": _csv(rows) for name, rows in sorted(quoted.tables.items())}
    return {**files, "run.json": json.dumps(quoted.facts, indent=2, sort_keys=True) + "\n"}


def results_page(results: Results) -> tuple[str, Results]:
    """The page, and exactly those rows, columns and facts that it quotes.

    The page ends in a checksum of what it quotes, so that not even a digit that rounding hides can
    change in one of the two alone.

    Raises
    ------
    QuotingError
        If the template quotes what the run does not have.
    """
    quoting = Quoting(results)
    asked = [claim.name for claim in load_claims() if claim.question]
    measured = [verdict for verdict in VERDICTS if verdict != NOT_MEASURED]
    decided = [verdict for verdict in measured if verdict not in (UNDECIDED, NOT_COMPARED)]
    text = page(
        "results.md", asked=asked, measured=measured, decided=decided, **quoting.functions()
    )
    quoted = quoting.quoted()
    digest = hashlib.sha256("".join(quoted_files(quoted).values()).encode()).hexdigest()
    return f"{text}\n<!-- SHA-256 of the files in docs/results: {digest} -->\n", quoted


class Quoting:
    """The functions that the template calls; records what they quote.

    ``name`` is a table. The conditions are values of columns, "" for an empty cell, or lists of
    values, of which a row has to have one; a row matches if it meets all of them.
    """

    def __init__(self, results: Results) -> None:
        self._results = results
        self._rows: dict[str, set[int]] = {}
        self._columns: dict[str, set[str]] = {}
        self._facts: dict[str, Any] = {}

    def functions(self) -> dict[str, Callable[..., str]]:
        """The functions that a template calls, by name."""
        names = ("fact", "figure", "interval", "value", "count", "crossed", "rows")
        return {name: getattr(self, name) for name in names}

    def quoted(self) -> Results:
        """What was quoted so far."""
        tables = {}
        for name, places in self._rows.items():
            rows = [self._results.tables[name][place] for place in sorted(places)]
            kept = [column for column in rows[0] if column in self._columns[name]]
            tables[name] = [{column: row[column] for column in kept} for row in rows]
        return Results(tables, self._facts)

    def fact(self, key: str) -> str:
        """A fact of the run, see :func:`read_run`."""
        if key not in self._results.facts:
            raise QuotingError(f"the run has no fact {key}.")
        fact = self._facts[key] = self._results.facts[key]
        return ", ".join(map(str, fact)) if isinstance(fact, list) else str(fact)

    def figure(self, name: str) -> str:
        """The file of a figure of the run, which is copied to ``docs``."""
        self.fact(f"figures.{name}")
        return f"{name}.png"

    def interval(self, name: str, **conditions: object) -> str:
        """The mean or effect of the single matching row, as "0.71 [0.69, 0.73]"."""
        table = self._results.tables.get(name) or [{}]
        column = next((column for column in _ESTIMATES if column in table[0]), "mean")
        return _cell_of(self._row(name, [column, *_INTERVAL], conditions), column)

    def value(self, name: str, column: str, **conditions: object) -> str:
        """One column of the single matching row; an estimate without its interval."""
        value = self._row(name, [column], conditions)[column]
        rounded = value and column in (*_ESTIMATES, *_ROUNDED)
        return cell(float(value), None, None) if rounded else value

    def count(self, name: str, **conditions: object) -> str:
        """The number of matching rows."""
        return str(len(self._found(name, [], conditions)))

    def rows(self, name: str, *columns: str, **conditions: object) -> str:
        """Columns of all matching rows, as a table; estimates with their intervals."""
        ends = () if set(_ESTIMATES).isdisjoint(columns) else _INTERVAL
        found = self._found(name, [*columns, *ends], conditions)
        return markdown_table(columns, ([_cell_of(row, c) for c in columns] for row in found))

    def crossed(self, name: str, index: str, column: str, **conditions: object) -> str:
        """The number of matching rows for each pair of values, one row per value of ``index``."""
        found = self._found(name, [index, column], conditions)
        counts = Counter((row[index], row[column]) for row in found)
        values = list(dict.fromkeys(row[column] for row in found))
        names = dict.fromkeys(row[index] for row in found)
        cells = (
            [of_index, *(str(counts[of_index, value]) for value in values)] for of_index in names
        )
        return markdown_table([index, *values], cells)

    def _row(
        self, name: str, columns: Sequence[str], conditions: Mapping[str, object]
    ) -> Mapping[str, str]:
        found = self._found(name, columns, conditions, only_one=True)
        return found[0]

    def _found(
        self,
        name: str,
        columns: Sequence[str],
        conditions: Mapping[str, object],
        only_one: bool = False,
    ) -> list[Mapping[str, str]]:
        """The matching rows; records their columns as quoted."""
        table = self._results.tables.get(name)
        if not table:
            raise QuotingError(f"there is no table {name}.")
        wanted = {
            column: [str(of) for of in (value if isinstance(value, list) else [value])]
            for column, value in conditions.items()
        }
        unknown = {*wanted, *columns} - table[0].keys()
        if unknown:
            raise QuotingError(f"{name} has no column {', '.join(sorted(unknown))}.")
        places = [
            place
            for place, row in enumerate(table)
            if all(row[column] in values for column, values in wanted.items())
        ]
        if not places or (only_one and len(places) > 1):
            said = ", ".join(f"{column}={' or '.join(of)}" for column, of in wanted.items())
            raise QuotingError(f"{len(places)} rows of {name} have {said}.")
        self._rows.setdefault(name, set()).update(places)
        self._columns.setdefault(name, set()).update(wanted, columns)
        return [table[place] for place in places]


def _cell_of(row: Mapping[str, str], column: str) -> str:
    """A cell of a table, an estimate with its interval."""
    if column in _ROUNDED and row[column]:
        return cell(float(row[column]), None, None)
    if column not in _ESTIMATES:
        return row[column] or "–"
    mean, low, high = (float(row[name]) if row[name] else None for name in (column, *_INTERVAL))
    return cell(mean, low, high)


def _configuration(*files: Path) -> dict[str, Any]:
    """Configuration files, of which later ones add to earlier ones, with all defaults."""
    config: dict[str, Any] = {}
    for file in files:
        update_config(config, yaml.safe_load(file.read_text(encoding="utf-8")))
    complete_configuration(config, SCHEMA_FILE)
    return config


def _is_of(accuracy: Sequence[Mapping[str, str]], config: Mapping[str, Any]) -> bool:
    """Whether a run's models, tasks and counts are those of a configuration."""
    columns = ("model", "task", "seeds", "examples")
    found = {tuple(row[column] for column in columns) for row in accuracy}
    seeds, tasks = len(config["seeds"]), config["tasks"]
    examples = seeds * config["test_examples"]
    counts = {**dict.fromkeys(tasks, examples), "average": examples * len(tasks)}
    return found == {
        (model, task, str(seeds), str(count))
        for model in config["models"]
        for task, count in counts.items()
    }


def _flattened(nested: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Values by their dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in nested.items():
        inner = isinstance(value, Mapping)
        flat |= _flattened(value, f"{prefix}{key}.") if inner else {f"{prefix}{key}": value}
    return flat


def _read_csv(file: Path) -> list[dict[str, str]]:
    with open(file, encoding="utf-8", newline="") as text:
        return list(csv.DictReader(text))


def _csv(rows: Sequence[Mapping[str, str]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
