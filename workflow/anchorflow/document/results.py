"""docs/results.md, quoted from the tables of a finished default run so that no number is copied.

``make docs`` renders ``results_template.md``, in which every number is a marker:

- ``{{flow task=average layer=4 …}}``: the one row of ``results/tables/flow.csv`` with these
  values, as "0.71 [0.69, 0.73]"; ``column=`` stands for an empty cell,
- ``{{flow … : mean}}``: one column of that row, here the value without its interval,
- ``{{claims … : count}}``: how many rows have these values,
- ``{{claims … : table statement verdict}}``: columns of all of them,
- ``{{claims … : crossed family verdict}}``: how many rows have each pair of values of two columns,
- ``{{causes … }}``: the same of claims of runs of ``config/causes.yaml``, see :func:`read_causes`,
- ``{{run seeds}}``: a fact of the run, see :func:`read_run`,
- ``{{figure flow}}``: a figure of the run, copied to ``docs``.

What the page quotes is saved in ``docs/results``. The page renders from there without a run, which
is how a test finds a page or a file that was changed by hand.
"""

import csv
import hashlib
import io
import json
import re
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from anchorflow.config.configuration import complete_configuration
from anchorflow.config.errors import InputError
from anchorflow.document import ROOT
from anchorflow.document.configuration import SCHEMA_FILE
from anchorflow.document.markdown import markdown_table
from anchorflow.store.checksums import read_json, sha256_of
from anchorflow.tabulate.page import cell

DOCS = ROOT / "docs"
TEMPLATE_FILE = Path(__file__).with_name("results_template.md")
_DEFAULT_CONFIGURATION = ROOT / "config" / "config.yaml"

_MARKER = re.compile(r"\{\{(.+?)\}\}", re.DOTALL)
_CAUSES = "[A] §2"  # family of the claims that only config/causes.yaml can decide
_ESTIMATES = ("mean", "effect")  # columns that have an interval
_INTERVAL = ("low", "high")
_AGAINST = ("control_effect", "null_effect")  # shown as estimates are, without an interval


class MarkerError(ValueError):
    """A marker that quotes nothing, or more than one row where one is meant."""


@dataclass(frozen=True)
class Results:
    """Tables of a run by their names, with cells as the CSV files have them, and its facts."""

    tables: Mapping[str, Sequence[Mapping[str, str]]]
    facts: Mapping[str, Any]


def write(run: Path = ROOT, docs: Path = DOCS, causes: Sequence[Path] = ()) -> None:
    """Write docs/results.md, what it quotes, and the figures that it shows.

    Parameters
    ----------
    run : path
        The folder of a finished default run.
    causes : sequence of path
        The folders of finished runs of ``config/causes.yaml``, one per model; without any, what
        was quoted of such runs stays.

    Raises
    ------
    InputError
        If there is no such run, in which case nothing is written.
    MarkerError
        If the template quotes what the run does not have.
    """
    results, known = read_run(run), docs / "results" / "causes.csv"
    if causes or known.is_file():
        told = read_causes(causes) if causes else _read_csv(known)
        results = Results({**results.tables, "causes": told}, results.facts)
    page, quoted = render(TEMPLATE_FILE.read_text(encoding="utf-8"), results)
    (docs / "results.md").write_text(page, encoding="utf-8")
    folder = docs / "results"
    folder.mkdir(exist_ok=True)
    files = quoted_files(quoted)
    for left in set(folder.iterdir()) - {folder / name for name in files}:
        left.unlink()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    for fact in quoted.facts:
        if fact.startswith("figures."):
            name = fact.removeprefix("figures.")
            (figure,) = (run / "results" / "figures" / name).glob("*.png")
            shutil.copyfile(figure, docs / f"{name}.png")


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
    manifest, tables, figures = _read_finished(run)
    config = yaml.safe_load(_DEFAULT_CONFIGURATION.read_text(encoding="utf-8"))
    complete_configuration(config, SCHEMA_FILE)
    if not _is_default(tables["accuracy"], config):
        raise InputError(
            f"{run / 'results'}: not a run of {_DEFAULT_CONFIGURATION.relative_to(ROOT)}; run that."
        )
    names = {"models": list(config["models"]), "tasks": list(config["tasks"])}
    facts = {**_flat(config), **names, **_flat({"software": manifest["software"]})}
    return Results(tables, facts if len(names["models"]) > 1 else {**facts, **figures})


def read_causes(runs: Sequence[Path]) -> list[dict[str, str]]:
    """What the claims about causes say of each model, averaged over tasks.

    Parameters
    ----------
    runs : sequence of path
        The folders of finished runs of ``config/causes.yaml``, or of copies with other models.

    Returns
    -------
    list of dict
        Rows of ``results/tables/claims.csv``.

    Raises
    ------
    InputError
        If a run is not finished, or a file is not what the run wrote.
    """
    claims = [row for run in runs for row in _read_finished(run)[1]["claims"]]
    return [row for row in claims if (row["task"], row["family"]) == ("average", _CAUSES)]


def _read_finished(
    run: Path,
) -> tuple[Mapping[str, Any], dict[str, list[dict[str, str]]], dict[str, str]]:
    """A finished run's manifest, its tables by their names, and its figures' SHA-256."""
    manifest = read_json(
        run / "results" / "manifest.json", remedy="finish the run to have its results"
    )
    sums = {file: entry["sha256"] for file, entry in manifest["files"].items()}
    tables, figures = {}, {}
    for file, known in sums.items():
        table = re.fullmatch(r"results/tables/(\w+)\.csv", file)
        figure = re.fullmatch(r"results/figures/(\w+)/[^/]+\.png", file)
        if (table or figure) and (not (run / file).is_file() or sha256_of(run / file) != known):
            raise InputError(f"{run / file}: not what the run wrote; run again to rebuild it.")
        if table:
            tables[table[1]] = _read_csv(run / file)
        elif figure:
            figures[f"figures.{figure[1]}"] = known
    return manifest, tables, figures


def read_quoted(folder: Path) -> Results:
    """What :func:`write` saved in ``docs/results``."""
    tables = {file.stem: _read_csv(file) for file in folder.glob("*.csv")}
    return Results(tables, json.loads((folder / "run.json").read_text(encoding="utf-8")))


def quoted_files(quoted: Results) -> dict[str, str]:
    """The files of ``docs/results`` and their contents."""
    files = {f"{name}.csv": _csv(rows) for name, rows in sorted(quoted.tables.items())}
    return {**files, "run.json": json.dumps(quoted.facts, indent=2, sort_keys=True) + "\n"}


def render(template: str, results: Results) -> tuple[str, Results]:
    """The page, and exactly those rows, columns and facts that it quotes.

    The page ends in a checksum of what it quotes, so that not even a digit that rounding hides can
    change in one of the two alone.

    Raises
    ------
    MarkerError
        Naming the marker that does not fit.
    """
    quoting = _Quoting(results)
    page = _MARKER.sub(quoting.text_of, template)
    quoted = quoting.quoted()
    digest = hashlib.sha256("".join(quoted_files(quoted).values()).encode()).hexdigest()
    return f"{page}\n<!-- SHA-256 of the files in docs/results: {digest} -->\n", quoted


class _Quoting:
    """Gives the text of each marker, and remembers what it quoted."""

    def __init__(self, results: Results) -> None:
        self._results = results
        self._rows: dict[str, set[int]] = {}
        self._columns: dict[str, set[str]] = {}
        self._facts: dict[str, Any] = {}

    def quoted(self) -> Results:
        tables = {}
        for name, places in self._rows.items():
            rows = [self._results.tables[name][place] for place in sorted(places)]
            kept = [column for column in rows[0] if column in self._columns[name]]
            tables[name] = [{column: row[column] for column in kept} for row in rows]
        return Results(tables, self._facts)

    def text_of(self, match: re.Match[str]) -> str:
        marker = " ".join(match[0].split())
        source, _, rest = marker.strip("{} ").partition(" ")
        try:
            if source == "run":
                return _words(self._fact(rest))
            if source == "figure":
                self._fact(f"figures.{rest}")
                return f"{rest}.png"
            conditions, _, form = rest.partition(": ")
            return self._cells(source, conditions, form)
        except MarkerError as error:
            raise MarkerError(f"{marker}: {error}") from None

    def _fact(self, key: str) -> Any:
        if key not in self._results.facts:
            raise MarkerError(f"the run has no fact {key}.")
        self._facts[key] = self._results.facts[key]
        return self._facts[key]

    def _cells(self, name: str, conditions: str, form: str) -> str:
        table = self._results.tables.get(name)
        if not table:
            raise MarkerError(f"there is no table {name}.")
        kind, *columns = form.split() or ["estimate"]
        if kind == "estimate":
            columns = [column for column in _ESTIMATES if column in table[0]] or ["mean"]
        elif kind not in ("count", "crossed", "table"):
            kind, columns = "value", [kind]
        wanted = dict(condition.partition("=")[::2] for condition in conditions.split())
        unknown = {*wanted, *columns} - table[0].keys()
        if unknown:
            raise MarkerError(f"{name} has no column {', '.join(sorted(unknown))}.")
        found = [place for place, row in enumerate(table) if wanted.items() <= row.items()]
        if not found or (len(found) > 1 and kind in ("estimate", "value")):
            raise MarkerError(f"{len(found)} rows of {name} match.")

        shows_interval = kind != "value" and not {*_ESTIMATES}.isdisjoint(columns)
        self._rows.setdefault(name, set()).update(found)
        self._columns.setdefault(name, set()).update(
            wanted, columns, _INTERVAL if shows_interval else ()
        )
        rows = [table[place] for place in found]
        if kind == "count":
            return str(len(rows))
        if kind == "table":
            cells = ([_shown(row, column) for column in columns] for row in rows)
            return markdown_table(columns, cells).rstrip()
        if kind == "crossed":
            return _crossed(rows, *columns)
        if kind == "estimate":
            return _shown(rows[0], *columns)
        (column,) = columns
        value = rows[0][column]
        rounded = value and column in (*_ESTIMATES, *_AGAINST)
        return cell(float(value), None, None) if rounded else value


def _crossed(rows: Sequence[Mapping[str, str]], index: str, column: str) -> str:
    """How many rows have each pair of values, one row per value of ``index``."""
    values = list(dict.fromkeys(row[column] for row in rows))
    counts = Counter((row[index], row[column]) for row in rows)
    names = dict.fromkeys(row[index] for row in rows)
    cells = ([name, *(str(counts[name, value]) for value in values)] for name in names)
    return markdown_table([index, *values], cells).rstrip()


def _shown(row: Mapping[str, str], column: str) -> str:
    """A cell of a table, an estimate with its interval."""
    if column in _AGAINST and row[column]:
        return cell(float(row[column]), None, None)
    if column not in _ESTIMATES:
        return row[column] or "–"
    mean, low, high = (float(row[name]) if row[name] else None for name in (column, *_INTERVAL))
    return cell(mean, low, high)


def _words(fact: Any) -> str:
    return ", ".join(map(str, fact)) if isinstance(fact, list) else str(fact)


def _is_default(accuracy: Sequence[Mapping[str, str]], config: Mapping[str, Any]) -> bool:
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


def _flat(nested: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Values by their dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in nested.items():
        inner = isinstance(value, Mapping)
        flat |= _flat(value, f"{prefix}{key}.") if inner else {f"{prefix}{key}": value}
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
