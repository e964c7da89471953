"""The page of a published run: answers, and the papers' tables and figures beside theirs."""

import re
from collections.abc import Callable, Mapping

import polars as pl

from anchorflow.analyses.compression.summarize import table_2
from anchorflow.analyses.regressors.summarize import kernel_table_2
from anchorflow.analyses.reweighting.summarize import table_1
from anchorflow.claims.verdicts import NOT_MEASURED
from anchorflow.config.stages import ANALYSES
from anchorflow.present.page import cell
from anchorflow.statistics.by_task import AVERAGE
from anchorflow.summary.answers import questions, surprises
from tools.document.markdown import page, readable
from tools.document.published_disputes import section_of
from tools.document.runs import KeptRun, with_cells

MEASURES = ("label_loyalty", "word_loyalty", "accuracy")  # Table 2 of [A]
PAPERS = {"gpt2-xl": "GPT2-XL", "gpt-j-6b": "GPT-J"}
# How many times as fast as full prompts a query with hidden_anchor is; Wang et al. 2023, Table 3.
TABLE_3 = {
    "gpt2-xl": {"sst2": 1.1, "trec": 1.5, "agnews": 2.5, "emoc": 1.4},
    "gpt-j-6b": {"sst2": 1.5, "trec": 2.2, "agnews": 2.9, "emoc": 1.9},
}
_FIGURES_OF_A = re.compile(r"\(Fig\. [345] of \[A\]\)")


def _figures() -> dict[str, str]:
    """Titles of the figures of [A] that a page shows, by analysis, in the paper's order."""
    titles = {name: analysis.figure.title for name, analysis in ANALYSES.items() if analysis.figure}
    found = {name: _FIGURES_OF_A.search(title) for name, title in titles.items()}
    numbers = {name: match[0] for name, match in found.items() if match}
    return {name: titles[name] for name in sorted(numbers, key=lambda name: numbers[name])}


FIGURES = _figures()


def page_of(run: KeptRun) -> str:
    """The page of a run, with a section on the second run of its model."""
    claims = run.tables["claims"]
    figures = {name: f"{name}.png" for name in FIGURES if f"{name}.png" in run.facts["files"]}
    counts, _ = questions(claims, figures)
    _, answers = questions(_without_descriptions(asked_of(run)), figures)
    small = pl.all().str.strip_chars().str.replace(r"\n(.*)", "<br><small>$1</small>")
    gains = pl.DataFrame(schema={"model": pl.String, "high": pl.Float64})
    return page(
        "published.md",
        facts=run.facts,
        count=counts[0],
        answers=readable(answers.with_columns(small)),
        surprises=surprises(claims, gains),
        tables={name: readable(of(run)) for name, of in TABLES.items() if name in run.tables},
        figures=[(FIGURES[name], file) for name, file in figures.items()],
        disputes=section_of(run.disputes) if run.disputes else "",
    )


def asked_of(run: KeptRun) -> pl.DataFrame:
    """The claims with a question that a run measured, over its tasks."""
    claims = run.rows("claims", task=AVERAGE)
    return claims.filter(pl.col("question").is_not_null(), pl.col("verdict") != NOT_MEASURED)


def _without_descriptions(claims: pl.DataFrame) -> pl.DataFrame:
    """Claims without what the page across runs says of effect and control."""
    return claims.with_columns(pl.lit("").alias("compared"), pl.lit("").alias("control"))


def tasks_of(run: KeptRun) -> list[str]:
    """A published run's tasks, in order."""
    return list(run.facts["texts"])


def _accuracies(run: KeptRun) -> pl.DataFrame:
    """Table 1 of [A]."""
    rows = with_cells(run.rows("reweighting", measure="accuracy"))
    published = {name: table_1(name, tasks_of(run)).filter(measure="accuracy") for name in PAPERS}
    return _with_published(_wide(rows, "task"), published, "task")


def _loyalties(run: KeptRun) -> pl.DataFrame:
    """Table 2 of [A], averages over tasks."""
    rows = with_cells(run.rows("compression", task=AVERAGE, share=None))
    published = {name: table_2(name, tasks_of(run)) for name in PAPERS}
    cells = _wide(rows, "measure").select("method", *MEASURES)
    return _with_published(cells, published, "measure")


def _speeds(run: KeptRun) -> pl.DataFrame:
    """Table 3 of [A]: how many times as fast as full prompts, by way and task."""
    tasks, times = tasks_of(run), run.tables["timing"]
    full = times.filter(way="full_prompt").select("task", full="milliseconds")
    ratios = times.join(full, "task").select(
        "task", pl.col("way").alias("method"), published=pl.col("full") / pl.col("milliseconds")
    )
    rows = [
        [f"{PAPERS[name]}, hidden_anchor", *(f"{speeds[task]:.1f}" for task in tasks)]
        for name, speeds in TABLE_3.items()
        if set(tasks) <= set(speeds)
    ]
    below = pl.DataFrame(rows, schema=["method", *tasks], orient="row")
    return pl.concat([_wide(_rounded(ratios), "task"), below.cast(pl.String)])


def _regressions(run: KeptRun) -> pl.DataFrame:
    """Table 2 of [K]: accuracies, and how often the best head agrees with the model."""
    method = pl.format("{}, {}", "method", "measure")
    rows = run.rows("regressors", demonstrations_per_label=None).filter(
        pl.col("weights").fill_null("max") == "max"
    )
    published = {
        name: kernel_table_2(name, tasks_of(run)).with_columns(method=method) for name in PAPERS
    }
    cells = _wide(with_cells(rows.with_columns(method=method)), "task")
    return _with_published(cells, published, "task")


# The tables that a page shows if the run has them.
TABLES: Mapping[str, Callable[[KeptRun], pl.DataFrame]] = {
    "reweighting": _accuracies,
    "compression": _loyalties,
    "timing": _speeds,
    "regressors": _regressions,
}


def _with_published(
    cells: pl.DataFrame, published: Mapping[str, pl.DataFrame], column: str
) -> pl.DataFrame:
    """The run's rows, then those that the papers have of the same columns."""
    rows = [
        _wide(
            _rounded(numbers).with_columns(method=pl.format(f"{PAPERS[name]}, {{}}", "method")),
            column,
        )
        for name, numbers in published.items()
        if not numbers.is_empty()
    ]
    return pl.concat([cells, *rows], how="diagonal")


def _rounded(numbers: pl.DataFrame) -> pl.DataFrame:
    cells = [cell(value, None, None) for value in numbers["published"]]
    return numbers.with_columns(pl.Series("cell", cells, dtype=pl.String))


def _wide(numbers: pl.DataFrame, column: str) -> pl.DataFrame:
    """Methods by the values of a column."""
    return numbers.pivot(column, index="method", values="cell", maintain_order=True)
