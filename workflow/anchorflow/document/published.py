"""docs/published: a page for each published run, beside the papers' numbers, and one across them.

``make publish RUN=folder`` makes a page from the tables of a finished run of one model. What it
quotes lies beside it, from which a test renders it again, with the run's summary and figures.
"""

import argparse
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import polars as pl

from anchorflow.analyses.compression.published import table_2
from anchorflow.analyses.reweighting.published import table_1
from anchorflow.claims.summarize import load_claims
from anchorflow.claims.verdicts import SIGNS
from anchorflow.config.errors import InputError
from anchorflow.document import ROOT
from anchorflow.document.markdown import markdown_table, page
from anchorflow.document.results import (
    DOCS,
    SUMMARY,
    Quoting,
    Results,
    flattened,
    quoted_files,
    read_finished,
    read_quoted,
)
from anchorflow.present.page import cell
from anchorflow.statistics.by_task import AVERAGE

PUBLISHED = DOCS / "published"
_FIGURES = ("flow", "isolation", "attention")  # Figures 3, 4 and 5 of [A]
_MARKS = ("effect_mark", "control_mark", "null_mark")


def publish(run: Path, configurations: Sequence[str], folder: Path = PUBLISHED) -> Path:
    """Write the page of a finished run of one model, what it quotes, and the page across runs.

    Parameters
    ----------
    configurations : sequence of str
        The configuration files with which the run is repeated, in order.

    Returns
    -------
    path
        The folder of the run's page.

    Raises
    ------
    InputError
        If the run is not finished, has several models, or a file is not what the run wrote.
    """
    manifest, tables, figures = read_finished(run)
    models = {row["model"] for row in tables["accuracy"]}
    if lacking := [name for name in ("claims", "reweighting") if name not in tables]:
        raise InputError(f"{run}: a page needs the tables {' and '.join(lacking)}; measure them.")
    if len(models) > 1:
        raise InputError(f"{run}: a page is about one model, and this run has {len(models)}.")
    (model,) = models
    facts = {"model": model, "configurations": list(configurations), **figures}
    facts |= flattened({"software": manifest["software"]})
    text, quoted = page_of(Results(tables, facts))
    written = {"README.md": text, **quoted_files(quoted)}
    contents = {name: content.encode() for name, content in written.items()}
    contents["summary.md"] = (run / SUMMARY).read_bytes()
    for name in _FIGURES:
        if f"figures.{name}" in figures:
            figure = run / "results" / "figures" / name / f"{model}.png"
            contents[f"{name}.png"] = figure.read_bytes()
    of_run = folder / model
    shutil.rmtree(of_run, ignore_errors=True)  # an earlier page may have had more files
    of_run.mkdir(parents=True)
    for name, content in contents.items():
        (of_run / name).write_bytes(content)
    (folder / "README.md").write_text(page_across(folder), encoding="utf-8")
    return of_run


def page_of(results: Results) -> tuple[str, Results]:
    """The page of a run, and what it quotes."""
    quoting = Quoting(results)
    functions: dict[str, Callable[..., str]] = quoting.functions()
    rows = results.tables.get("reweighting", [])
    tasks = [task for task in dict.fromkeys(row["task"] for row in rows) if task != AVERAGE]
    shown = [name for name in _FIGURES if f"figures.{name}" in results.facts]
    text = page(
        "published.md",
        **functions,
        measured=results.tables,
        shown=shown,
        of_gpt2={
            "reweighting": _published(table_1("gpt2-xl", tasks), "task"),
            "compression": _published(table_2("gpt2-xl", tasks), "measure"),
        },
        of_gptj={"compression": _published(table_2("gpt-j-6b", tasks), "measure")},
    )
    return text, quoting.quoted()


def _published(numbers: pl.DataFrame, column: str) -> str:
    """A paper's numbers, one row per method; empty if the paper has none for these tasks."""
    rows = numbers.filter(pl.col("measure") != "accuracy_gain")
    if rows.is_empty():
        return ""
    wide = rows.pivot(column, index="method", values="published", maintain_order=True)
    cells = ([str(name), *(cell(value, None, None) for value in of)] for name, *of in wide.rows())
    return markdown_table(wide.columns, cells)


def page_across(folder: Path) -> str:
    """Claims by model, those that hold in most models first: marks, effect, and verdict."""
    runs = {file.parent.name: read_quoted(file.parent) for file in folder.glob("*/run.json")}
    verdicts: dict[str, dict[str, Mapping[str, str]]] = {}
    for model, results in sorted(runs.items()):
        for row in results.tables["claims"]:
            verdicts.setdefault(row["claim"], {})[model] = row
    claims = {claim.name: claim for claim in load_claims()}
    order = sorted(
        (name for name in verdicts if name in claims),
        key=lambda name: -sum(row["verdict"] == "supported" for row in verdicts[name].values()),
    )
    rows = [
        [
            claims[name].statement,
            claims[name].source,
            *(_verdict(verdicts[name].get(model)) for model in sorted(runs)),
        ]
        for name in order
    ]
    matrix = markdown_table(["claim", "source", *sorted(runs)], rows)
    return page("across.md", matrix=matrix, models=sorted(runs))


def _verdict(row: Mapping[str, str] | None) -> str:
    if row is None or not row["effect"]:
        return "–"
    ends = (float(row[end]) if row[end] else None for end in ("low", "high"))
    marks = " ".join(SIGNS[row[mark]] for mark in _MARKS)
    return f"{marks} {cell(float(row['effect']), *ends)}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m anchorflow.document.published")
    parser.add_argument("run", type=Path, help="folder of a finished run")
    parser.add_argument("configuration", nargs="+", help="the run's configuration files, in order")
    given = parser.parse_args()
    try:
        print(f"Written: {publish(given.run, given.configuration).relative_to(ROOT)}")
    except InputError as error:
        raise SystemExit(str(error)) from None
