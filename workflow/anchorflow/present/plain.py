"""Tables with one row per key and one column per measure."""

from collections.abc import Sequence

import polars as pl

from anchorflow.present.page import Page, pivoted
from anchorflow.statistics.accuracy_change import DETAILS
from anchorflow.statistics.by_task import AVERAGE


def tabulate_keys(summary: pl.DataFrame, title: str, keys: Sequence[str]) -> Page:
    """The table of a summary whose analysis has no ``tabulate`` module."""
    rows = ", ".join(key for key in keys if key != "measure")
    index = ["model", *(key for key in keys if key not in ("model", "measure"))]
    note = f"One row per {rows}; a column per measure, with intervals."
    table = pivoted(without_details(summary), index, "measure")
    return Page(title, note, table.fill_null("–"))


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
