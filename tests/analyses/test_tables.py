"""Tables of all analyses: rows, columns, and notes; and summaries of nothing."""

from inspect import signature
from typing import Any

import polars as pl
import pytest

from anchorflow.config.analysis import Presented, Tabulated
from anchorflow.config.errors import InputError
from anchorflow.config.registry import entries, load
from anchorflow.config.stages import ANALYSES, STAGES, folder_of
from anchorflow.config.table import SummaryTable
from anchorflow.present.page import tabulate_declared
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.store.all_tables import TABLES
from constructed.rows import CELL, INTERVAL, frame
from constructed.summaries import SUMMARIES, with_a_task_skipped_whole

DECLARED = {
    name: analysis.table
    for name, analysis in ANALYSES.items()
    if analysis.table and "tabulate" not in entries(folder_of(name))
}
OWN = [name for name, of in ANALYSES.items() if of.table and name not in DECLARED]
MEASURED = ("reweighting", "timing")  # whose tables have more than a summary
NEVER_REFUSED = ("accuracy", "probes", "theory")
# What summaries are told beside tables; it matters to none without rows.
TOLD: dict[str, Any] = {"confidence": 0.9, "chosen_on": 0.5, "temperature": 1.0, "encoder": ""}
TOLD |= {"demonstrations": "fixed", "variant": "mask", "words": {}, "asked": {}, "baselines": []}
TOLD |= {"further_temperatures": {}}
VALUES: dict[Any, Any] = {pl.String: "a", pl.Boolean: True, pl.Int32: 2, pl.Float64: 0.5}


def summary_of(table: SummaryTable, shown: Tabulated) -> pl.DataFrame:
    """A row per task, two values of each setting, and measure, with one mean of each null."""
    types = frame_schema(table)
    rows = pl.DataFrame({"model": ["tiny"]})
    for name in table.settings:
        value = VALUES[types[name]]
        other = value + value if not isinstance(value, bool) else False
        values = pl.Series(name, [value, other], dtype=types[name])
        rows = rows.join(values.to_frame(), how="cross")
    rows = rows.join(pl.DataFrame({"task": ["news", "average"]}), how="cross")
    rows = rows.join(pl.DataFrame({"measure": table.measured}), how="cross")
    known = ("mean", "low", "high", "examples", "texts", "seeds")
    filled = dict(zip(known, INTERVAL, strict=True))
    more = {name: 1 for name in types if name not in {*rows.columns, *filled}}
    rows = rows.with_columns(**{name: pl.lit(value) for name, value in {**filled, **more}.items()})
    first = pl.int_range(pl.len()).over(*table.settings, "task", "measure") == 0
    missing = first & (pl.col("task") == "average") & (pl.col("measure") == table.measured[0])
    unknown = [pl.when(~missing).then(name).alias(name) for name in ("mean", "low", "high")]
    made = rows.with_columns(unknown).select(types.names()).cast(types)
    cells = {*(shown.index or table.settings), "model", "task", "measure", shown.column}
    return made.unique(sorted(cells), keep="first", maintain_order=True)


@pytest.mark.parametrize("name", DECLARED)
def test_a_declared_table_has_a_row_per_index_and_a_column_per_value(name: str) -> None:
    shown, table = DECLARED[name], TABLES[f"{name}_summary"]
    assert isinstance(table, SummaryTable)
    of = shown if isinstance(shown, Tabulated) else Tabulated(shown.title)
    summary = summary_of(table, of)
    page = tabulate_declared(summary, table, shown)
    wanted = {of.measure} if of.measure else {m.name for m in table.measures if not m.in_full}
    rows = summary.filter(pl.col("measure").is_in(wanted))
    if of.averaged:
        rows = rows.filter(task="average")
    keys = [key for key in table.keys if key not in ("model", of.column)]
    index = ["model", *(of.index or keys)]
    columns = rows[of.column].unique(maintain_order=True).to_list()
    assert page.table.columns == [*index, *columns]
    assert page.table.select(index).rows() == rows.select(index).unique(maintain_order=True).rows()
    cells = {cell for row in page.table.select(columns).rows() for cell in row}
    assert cells <= {CELL, "–"}
    assert ("–" in cells) == (rows["mean"].null_count() > 0)


@pytest.mark.parametrize("name", DECLARED)
def test_its_note_says_what_each_of_its_measures_is(name: str) -> None:
    table, shown = TABLES[f"{name}_summary"], DECLARED[name]
    assert isinstance(table, SummaryTable)
    of = shown if isinstance(shown, Tabulated) else Tabulated(shown.title)
    note, one = tabulate_declared(summary_of(table, of), table, shown).note, of.measure
    for measure in table.measures:
        stands = measure.name == one if one else not measure.in_full
        assert (f"{measure.name}: {measure.words}." in note) == stands
    assert note.endswith(f"results/tables/{name}.csv has everything.")


def test_a_table_without_further_words_has_all_keys_as_index() -> None:
    table = TABLES["transplant_summary"]
    assert isinstance(table, SummaryTable)
    page = tabulate_declared(summary_of(table, Tabulated("")), table, Presented("Title"))
    assert page.title == "Title"
    assert page.table.columns[: len(table.settings) + 2] == ["model", "task", *table.settings]


@pytest.mark.parametrize("name", [name for name in OWN if name not in MEASURED])
def test_a_table_of_its_own_has_no_empty_cell_even_if_a_task_was_skipped_whole(name: str) -> None:
    tabulate = getattr(load(folder_of(name), "tabulate"), f"tabulate_{name}")
    summary = SUMMARIES[name]()
    summaries = [summary] if name == "theory" else [summary, with_a_task_skipped_whole(summary)]
    for page in map(tabulate, summaries):
        assert not page.table.is_empty()
        for table in (page.table, *page.further.values()):
            assert sum(table.null_count().row(0)) == 0


def summary_of_nothing(name: str) -> pl.DataFrame:
    """The summary of tables without rows, but for a prompt that is too long."""
    summary = ANALYSES[name].summary
    assert summary is not None
    summarize = getattr(load(folder_of(name), "summarize"), f"summarize_{name}")
    arguments = dict(TOLD)
    for argument, read in summary.reads.items():
        stage, _, file = read.partition("/")
        arguments[argument] = pl.DataFrame(schema=frame_schema(TABLES[STAGES[stage].tables[file]]))
        if read == "prompts":
            row = {"model": "tiny", "task": "news", "seed": 0, "demonstrations": "fixed"}
            arguments[argument] = frame([row | {"example": 0, "skipped": "too long"}], PROMPTS)
    wanted = signature(summarize).parameters
    found: pl.DataFrame = summarize(
        **{name: arguments[name] for name in wanted if name in arguments}
    )
    return found


# Accuracy counts what was skipped; probes may have nothing to decode; worlds have no prompts.
@pytest.mark.parametrize(
    "name", [name for name, of in ANALYSES.items() if of.summary and name not in NEVER_REFUSED]
)
def test_a_summary_of_nothing_is_refused_with_the_likely_cause(name: str) -> None:
    with pytest.raises(InputError, match="every prompt exceeds the model's context"):
        summary_of_nothing(name)
