"""Tables with one row per key and one column per measure."""

import polars as pl

from anchorflow.config.analysis import Presented, Tabulated
from anchorflow.config.table import Summary
from anchorflow.present.page import Page, at_depths, pivoted
from anchorflow.statistics.accuracy_change import DETAILS
from anchorflow.statistics.by_task import AVERAGE


def tabulate_declared(summary: pl.DataFrame, table: Summary, shown: Presented) -> Page:
    """The table of an analysis that has no ``tabulate`` module; see :class:`Tabulated`."""
    of = shown if isinstance(shown, Tabulated) else Tabulated(shown.title)
    measures = [
        m for m in table.measures if (m.name == of.measure if of.measure else not m.in_full)
    ]
    rows = summary.filter(pl.col("measure").is_in([measure.name for measure in measures]))
    if of.averaged:
        rows = averaged_rows(rows)
    if of.at_depths:
        rows = at_depths(rows)
    known = [name for name in table.keys if name not in ("model", of.column)]
    cells = pivoted(rows, ["model", *(of.index or known)], of.column)
    note = [
        of.note or "Means with intervals, one column per measure.",
        *(f"{measure.name}: {measure.words}." for measure in measures),
        f"results/tables/{table.name.removesuffix('_summary')}.csv has everything.",
    ]
    return Page(of.title, " ".join(note), cells.fill_null("–"))


def without_details(summary: pl.DataFrame) -> pl.DataFrame:
    """The rows of measures that a table for reading has room for; its CSV file has all."""
    return summary.filter(~pl.col("measure").is_in(DETAILS))


def averaged_rows(summary: pl.DataFrame) -> pl.DataFrame:
    """The rows of the average over tasks."""
    return summary.filter(pl.col("task") == AVERAGE)


def with_skipped(summary: pl.DataFrame, *measures: str) -> pl.DataFrame:
    """The rows by model and task, with a note of skipped prompts at these measures."""
    noted = (pl.col("skipped") > 0) & pl.col("measure").is_in(measures)
    count = pl.when(noted).then(pl.format(" ({} skipped)", "skipped"))
    order = {name: at for at, name in enumerate(summary["task"].unique(maintain_order=True))}
    return summary.with_columns(note=count).sort(
        "model", pl.col("task").replace_strict(order), maintain_order=True
    )
