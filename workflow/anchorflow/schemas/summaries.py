"""The table of a summary, from its settings and measures."""

from collections.abc import Iterable, Sequence

from anchorflow.config.table import Column, Measure, SummaryTable
from anchorflow.schemas.fields import INTERVAL, OF_TASK


def summary_of(
    analysis: str,
    settings: Sequence[Column],
    measures: Sequence[Measure],
    more: Iterable[Column] = (),
    mean: str = "mean over seeds",
    unit: str = "1",
    about: str = "",
) -> SummaryTable:
    """One row per task, setting and measure, with its mean and interval.

    ``more`` are columns after the interval; ``about`` precedes the measures' words.
    """
    columns = (
        *OF_TASK,
        *settings,
        Column("measure", "string", about + words_of(measures)),
        Column("mean", "float64", mean, unit),
        *INTERVAL,
        *more,
    )
    names = tuple(column.name for column in settings)
    return SummaryTable(
        f"{analysis}_summary",
        f"one per ({', '.join(('task', *names, 'measure'))})",
        columns,
        ("model", "task", *names, "measure"),
        names,
        tuple(measures),
    )


def words_of(measures: Iterable[Measure]) -> str:
    """What measures are, as a column's description or a table's note says it."""
    return "; ".join(f"{measure.name}: {measure.words}" for measure in measures)
