"""A published run, and its page: answers, and the papers' tables and figures beside theirs."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import polars as pl

from anchorflow.analyses.compression.published import table_2
from anchorflow.analyses.regressors.published import kernel_table_2
from anchorflow.analyses.reweighting.published import table_1
from anchorflow.analyses.timing.published import TABLE_3
from anchorflow.document.markdown import page
from anchorflow.present.page import cell, markdown_lines
from anchorflow.statistics.by_task import AVERAGE
from anchorflow.summary.answers import questions, surprises
from anchorflow.summary.sections import in_whole_seconds

FIGURES = {  # of [A], with their titles
    "flow": "Information flow (Figure 3 of [A])",
    "isolation": "Isolation (Figure 4 of [A])",
    "attention": "Attention to label words (Figure 5 of [A])",
}
MEASURES = ("label_loyalty", "word_loyalty", "accuracy")  # Table 2 of [A]
PAPERS = {"gpt2-xl": "GPT2-XL", "gpt-j-6b": "GPT-J"}


@dataclass(frozen=True)
class Published:
    """A published run: what it is of, and the tables that its page is made from, by name."""

    facts: Mapping[str, Any]
    tables: Mapping[str, pl.DataFrame]

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The run of a folder of ``docs/published``."""
        facts = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        return cls.of(facts, {file.stem: file for file in folder.glob("*.csv")})

    @classmethod
    def of(cls, facts: Mapping[str, Any], files: Mapping[str, Path]) -> Self:
        """A run with the tables of these CSV files, by name."""
        tables = {name: pl.read_csv(file, infer_schema_length=None) for name, file in files.items()}
        return cls(facts, tables)

    @property
    def tasks(self) -> list[str]:
        """Its tasks, in order."""
        return list(self.facts["texts"])

    def cells(self, name: str, row: str, column: str, **conditions: object) -> pl.DataFrame:
        """The matching estimates with their intervals, a table of rows by columns."""
        rows = self.tables[name].filter(
            *(pl.col(key).eq_missing(pl.lit(value)) for key, value in conditions.items())
        )
        cells = [cell(*values) for values in rows.select("mean", "low", "high").iter_rows()]
        return rows.with_columns(pl.Series("cell", cells, dtype=pl.String)).pivot(
            column, index=row, values="cell", maintain_order=True
        )


def page_of(run: Published) -> str:
    """The page of a run."""
    figures = {name: f"{name}.png" for name in FIGURES if f"{name}.png" in run.facts["files"]}
    counts, asked = questions(run.tables["claims"], figures)
    gains = pl.DataFrame(schema={"model": pl.String, "high": pl.Float64})
    tables: dict[str, Callable[[Published], pl.DataFrame]] = {
        "reweighting": _accuracies,
        "compression": _loyalties,
        "timing": _speeds,
        "regressors": _regressions,
    }
    return page(
        "published.md",
        facts=run.facts,
        count=counts[0],
        answers=readable(asked.with_columns(_small(pl.all()))),
        surprises=surprises(run.tables["claims"], gains),
        tables={name: readable(of(run)) for name, of in tables.items() if name in run.tables},
        figures=[(FIGURES[name], file) for name, file in figures.items()],
        costs=readable(in_whole_seconds(run.tables["costs"])),
    )


def _small(column: pl.Expr) -> pl.Expr:
    return column.str.replace(r"\n(.*)", "<br><small>$1</small>")


def readable(frame: pl.DataFrame) -> str:
    """A table of text and numbers in Markdown."""
    return "\n".join(markdown_lines(frame.cast(pl.String).fill_null("–")))


def _accuracies(run: Published) -> pl.DataFrame:
    """Table 1 of [A]."""
    return _with_published(
        run.cells("reweighting", "method", "task", measure="accuracy"),
        {name: table_1(name, run.tasks).filter(measure="accuracy") for name in PAPERS},
        "task",
    )


def _loyalties(run: Published) -> pl.DataFrame:
    """Table 2 of [A], averages over tasks."""
    cells = run.cells("compression", "method", "measure", task=AVERAGE, share=None)
    return _with_published(
        cells.select("method", *MEASURES),
        {name: table_2(name, run.tasks) for name in PAPERS},
        "measure",
    )


def _speeds(run: Published) -> pl.DataFrame:
    """Table 3 of [A]: how many times as fast as full prompts, by way and task."""
    times = run.tables["timing"]
    full = times.filter(way="full_prompt").select("task", full="milliseconds")
    ratios = times.join(full, "task").select(
        "task", pl.col("way").alias("method"), published=pl.col("full") / pl.col("milliseconds")
    )
    wide = _wide(ratios, "task")
    known = {name: speeds for name, speeds in TABLE_3.items() if set(run.tasks) <= set(speeds)}
    rows = [
        [f"{PAPERS[name]}, hidden_anchor", *(f"{speeds[task]:.1f}" for task in run.tasks)]
        for name, speeds in known.items()
    ]
    below = pl.DataFrame(rows, schema=["method", *run.tasks], orient="row")
    return pl.concat([wide, below.cast(pl.String)])


def _regressions(run: Published) -> pl.DataFrame:
    """Table 2 of [K]: accuracies, and how often the best head agrees with the model."""
    rows = run.tables["regressors"].filter(
        pl.col("demonstrations_per_label").is_null(),
        pl.col("weights").is_null() | (pl.col("weights") == "max"),
    )
    named = rows.with_columns(method=pl.format("{}, {}", "method", "measure"))
    of_run = Published(run.facts, {"regressors": named}).cells("regressors", "method", "task")
    published = {
        name: kernel_table_2(name, run.tasks).with_columns(
            method=pl.format("{}, {}", "method", "measure")
        )
        for name in PAPERS
    }
    return _with_published(of_run, published, "task")


def _with_published(
    cells: pl.DataFrame, published: Mapping[str, pl.DataFrame], column: str
) -> pl.DataFrame:
    """The run's rows, then those that the papers have of the same columns."""
    rows = [
        _wide(
            numbers.with_columns(method=pl.format("{}, {}", pl.lit(PAPERS[name]), "method")), column
        )
        for name, numbers in published.items()
        if not numbers.is_empty()
    ]
    return pl.concat([cells, *rows], how="diagonal")


def _wide(numbers: pl.DataFrame, column: str) -> pl.DataFrame:
    cells = [cell(value, None, None) for value in numbers["published"]]
    return numbers.with_columns(pl.Series("published", cells)).pivot(
        column, index="method", values="published", maintain_order=True
    )
