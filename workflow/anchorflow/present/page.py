"""Summaries as pages: a title, a table, and a note on how to read it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from anchorflow.config.analysis import Presented, Tabulated
from anchorflow.config.table import SummaryTable
from anchorflow.present.markup import html_table, latex_table
from anchorflow.schemas.frames import layers_of
from anchorflow.statistics.by_task import AVERAGE
from anchorflow.statistics.change import DETAILS
from anchorflow.store.replacing import replacing

_DEPTHS = (0.0, 0.25, 0.5, 0.75, 1.0)  # relative depths of the layers that a page shows


@dataclass(frozen=True)
class Page:
    """A table of all models with its title and note, and further tables by title."""

    title: str
    note: str
    table: pl.DataFrame
    further: Mapping[str, pl.DataFrame] = field(default_factory=dict)


def cell(mean: float | None, low: float | None, high: float | None) -> str:
    """A value with its interval, as in "0.61 [0.55, 0.68]"; a dash where undefined."""
    if mean is None:
        return "–"
    if low is None or high is None:
        return f"{mean:z.2f}"
    return f"{mean:z.2f} [{low:z.2f}, {high:z.2f}]"


def at_depths(summary: pl.DataFrame) -> pl.DataFrame:
    """The rows of five layers of each model, evenly spaced from the first to the last."""
    parts = []
    for (_,), rows in summary.group_by("model", maintain_order=True):
        layers = layers_of(rows)
        chosen = sorted({layers[int(np.rint(depth * (len(layers) - 1)))] for depth in _DEPTHS})
        parts.append(rows.filter(pl.col("layer").is_in(chosen)))
    return pl.concat(parts)


def pivoted(summary: pl.DataFrame, index: Sequence[str], column: str) -> pl.DataFrame:
    """One row per ``index``, one column per value of ``column``, each cell with its interval.

    A column ``note``, if there is one, follows the interval.
    """
    cells = [cell(*row) for row in summary.select("mean", "low", "high").iter_rows()]
    if "note" in summary.columns:
        cells = [text + (note or "") for text, note in zip(cells, summary["note"], strict=True)]
    return summary.with_columns(pl.Series("cell", cells)).pivot(
        column, index=list(index), values="cell", maintain_order=True
    )


def tabulate_declared(summary: pl.DataFrame, table: SummaryTable, shown: Presented) -> Page:
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


def write_csv(path: str | Path, frame: pl.DataFrame) -> None:
    """Write all rows atomically."""
    with replacing(path) as temporary:
        frame.write_csv(temporary)


def markdown_lines(frame: pl.DataFrame) -> list[str]:
    """A table in Markdown."""
    return [
        _markdown_row(frame.columns),
        "|" + "---|" * len(frame.columns),
        *(_markdown_row(row) for row in frame.iter_rows()),
    ]


def _markdown_row(values: Sequence[object]) -> str:
    cells = (" ".join(str(value).split()).replace("|", r"\|") for value in values)
    return f"| {' | '.join(cells)} |"


def _markdown(
    title: str, note: str, frame: pl.DataFrame, further: Mapping[str, pl.DataFrame]
) -> str:
    """The title, the table, the note, and further tables with their titles."""
    lines = [f"# {title}", "", *markdown_lines(frame), "", note]
    for name, other in further.items():
        lines += ["", f"## {name}", "", *markdown_lines(other)]
    return "\n".join(lines) + "\n"


_FORMATS = {"md": _markdown, "html": html_table, "tex": latex_table}


def write_page(paths: Mapping[str, str | Path], page: Page) -> None:
    """Write a page as Markdown, HTML and LaTeX, to those of "md", "html" and "tex" in ``paths``."""
    for kind, written in _FORMATS.items():
        if kind in paths:
            text = written(page.title, page.note, page.table, page.further)
            with replacing(paths[kind]) as temporary:
                temporary.write_text(text, encoding="utf-8")
