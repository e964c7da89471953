"""The summary of an analysis that repeats every prediction under several settings."""

from collections.abc import Callable, Iterable, Sequence

import polars as pl

from anchorflow.config.table import Summary
from anchorflow.statistics.by_task import over_tasks, summary_rows, summary_table
from anchorflow.statistics.estimates import Estimate


def settings_of(rows: pl.DataFrame, table: Summary) -> pl.DataFrame:
    """The settings that occur in rows, in order."""
    return rows.select(table.settings).unique(maintain_order=True).sort(table.settings)


def summarize_settings(
    table: Summary,
    settings: pl.DataFrame | None,
    of_task: Callable[[pl.DataFrame], Estimate],
    measured: pl.DataFrame,
    prompts: pl.DataFrame,
    confidence: float,
    *,
    counted: pl.DataFrame | None = None,
    further: Iterable[pl.DataFrame] = (),
    measures: Sequence[str] = (),
) -> pl.DataFrame:
    """Every measure of every setting, per task and averaged over tasks, with intervals.

    Every seed draws its own positions, edges, or donors, so intervals over seeds cover these draws.

    Parameters
    ----------
    settings : DataFrame, optional
        One row per setting; none for predictions of a single one.
    of_task
        From the measured rows of one task to an estimate of [settings · measures].
    counted : DataFrame, optional
        The rows whose examples, texts and seeds are counted, if not all that are measured.
    further : iterable of DataFrame
        Columns to add, joined by the columns that they share with the summary.
    measures : sequence of str, optional
        Those of the table that are estimated here, if not all.
    """
    named = pl.DataFrame({"measure": measures or table.measured})
    keys = named if settings is None else settings.join(named, how="cross")
    tasks = prompts["task"].unique(maintain_order=True).to_list()
    estimates = over_tasks(measured, tasks, of_task, len(keys))
    source = measured if counted is None else counted
    rows = summary_rows(estimates, keys, source, confidence, table.bounds)
    for columns in further:
        shared = [name for name in columns.columns if name in rows.columns]
        rows = rows.join(columns, shared, "left", nulls_equal=True, maintain_order="left")
    return summary_table(rows, prompts, table)
