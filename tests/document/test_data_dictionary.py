"""The data dictionary against the schemas."""

import re

import pytest

from anchorflow.config.stages import files_of_tables
from anchorflow.config.table import Column, SummaryTable, Table
from anchorflow.store.all_tables import TABLES
from tools.document.data_dictionary import data_dictionary, in_full, shared_columns

FILES = files_of_tables()


def test_columns_of_csv_files_and_queries_are_named_in_their_section_and_described() -> None:
    page = data_dictionary()
    _, _, _, *sections, _ = page.split("\n## ")
    full = [name for name in TABLES if in_full(name, FILES[name])]
    assert [section.partition("\n")[0] for section in sections] == full
    assert {name for name in TABLES if name.endswith("_summary")} < set(full)
    assert {"claims", "samples", "predictions", "flow"} < set(full)
    described = re.findall(r"^\| (?:\*\*)?`(\w+)`(?:\*\*)? \| (.*) \|$", page, re.MULTILINE)
    for section, table in zip(sections, full, strict=True):
        unnamed = {"model", "task", "mean", "low", "high", "examples", "texts", "seeds"}
        if not table.endswith("_summary") or table in ("probes_summary", "theory_summary"):
            unnamed = set()
        for column in TABLES[table].columns:
            assert column.name in unnamed or f"`{column.name}`" in section, (table, column.name)
            if column.name == "measure" and isinstance(TABLES[table], SummaryTable):
                continue
            wanted = column.words.replace("|", "\\|")
            wanted = re.sub(r"^as in the table (segments|places|kernel|vectors)", "", wanted)
            assert any(name == column.name and wanted in row for name, row in described)
        bold = set(re.findall(r"\*\*`(\w+)`\*\*", section))
        assert bold | {"model", "task"} >= set(TABLES[table].keys) >= bold
        assert all(f"`{pattern}`" in section for pattern in FILES[table])
    assert "| part of a demonstration: before_text and before_label (template)" in page


def test_every_other_table_has_a_row_with_its_keys_and_files() -> None:
    page = data_dictionary()
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", page.rpartition("\n## ")[2], re.MULTILINE)
    assert [name for name, _ in rows] == [n for n in TABLES if not in_full(n, FILES[n])]
    for name, row in rows:
        of, keys, files = row.split(" | ")
        assert f"one per {of}" == TABLES[name].rows
        listed = re.findall(r"`(\w+)`", keys)
        assert set(TABLES[name].keys) - set(listed) <= {"model", "task", "seed"}
        assert re.findall("`([^`]+)`", files) == list(FILES[name])


def test_a_column_that_three_tables_describe_alike_is_shared_and_one_of_each_name() -> None:
    def table(*columns: tuple[str, str]) -> Table:
        made = tuple(Column(name, "int32", words) for name, words in columns)
        return Table("made", "one", made, ())

    first, other = ("layer", "a layer"), ("layer", "the first layer")
    tables = [table(first, ("seed", "a seed"))] * 2 + [table(other)] * 3 + [table(first)] * 2
    assert [(column.name, column.words) for column in shared_columns(tables)] == [first]


@pytest.mark.parametrize(
    "table", [table for table in TABLES.values() if isinstance(table, SummaryTable)], ids=str
)
def test_a_measure_is_described_once_in_its_section_or_at_the_top(table: SummaryTable) -> None:
    sections = data_dictionary().split("\n## ")
    (section,) = (text for text in sections if text.startswith(f"{table.name}\n"))
    (measures,) = (text for text in sections if text.startswith("Shared measures"))
    for measure in table.measures:
        described = f"{measure.name}: {measure.words}".replace("|", "\\|")
        if described not in section:
            assert f"`{measure.name}`" in section
            assert f"| `{measure.name}` | {measure.words} |" in measures


@pytest.mark.parametrize("name", TABLES)
def test_keys_are_columns_of_their_table(name: str) -> None:
    keys = TABLES[name].keys
    assert keys and set(keys) <= set(TABLES[name].names)
