"""The sections of a run's summary, from its tables."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from anchorflow.summary.answers import LEGEND, questions, surprises
from anchorflow.summary.facts import ACCURACY_NOTE, accuracies, described, gains, texts_described
from anchorflow.summary.page import Section

_COST_NOTE = (
    "test texts: summed over tasks and seeds. CPU seconds, those of untrained networks among them, "
    "and seconds are those of the jobs that made what is there, for earlier settings too; they "
    "differ between runs."
)


def sections_of(
    tables: Mapping[str, pl.DataFrame],
    run: Mapping[str, Any],
    spent: pl.DataFrame,
    confidence: float,
) -> list[Section]:
    """The questions with their answers, surprises, accuracies, and what was run.

    ``tables`` are the run's summaries by the names of their analyses, and ``texts`` and
    ``samples`` of all tasks and seeds. ``run`` is as in :func:`described`, with the paths of
    ``figures`` by analysis.
    """
    counts, asked = questions(tables["claims"], run["figures"])
    return [
        Section("Questions and answers", counts, asked, LEGEND.format(confidence)),
        Section("What surprises", surprises(tables["claims"], gains(tables))),
        Section("What the model does", table=accuracies(tables, run["labels"]), note=ACCURACY_NOTE),
        Section(
            "What was run",
            [*described(run), *texts_described(tables["texts"], tables["samples"], run)],
            in_whole_seconds(spent),
            _COST_NOTE,
        ),
    ]


def in_whole_seconds(spent: pl.DataFrame) -> pl.DataFrame:
    """Costs in whole seconds, with the titles of a page."""
    titles = {
        "test_texts": "test texts",
        "distinct_texts": "distinct texts",
        "cpu_seconds": "CPU seconds",
        "untrained_cpu_seconds": "untrained",
        "seconds": "seconds of jobs",
    }
    whole = spent.with_columns(pl.col(pl.Float64).round().cast(pl.Int64)).rename(
        titles, strict=False
    )
    return whole.cast(pl.String).fill_null("–")
