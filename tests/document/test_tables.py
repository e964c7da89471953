"""The data dictionary against the schemas."""

import re

import pyarrow as pa
import pytest

from anchorflow.config.stages import files_of_tables
from anchorflow.document.tables import (
    DICTIONARY_FILE,
    columns_of,
    data_dictionary,
    keys_of,
    shared_columns,
)
from anchorflow.schemas.fields import field
from anchorflow.store.all_tables import TABLES

FILES = files_of_tables()


def test_the_page_is_what_the_schemas_yield() -> None:
    assert DICTIONARY_FILE.read_text(encoding="utf-8") == data_dictionary(TABLES, FILES), (
        "docs/reference/data_dictionary.md is behind; run make docs."
    )


def test_every_column_stands_in_the_section_of_its_table_with_one_description_on_the_page() -> None:
    page = data_dictionary(TABLES, FILES)
    _, shared, *sections = page.split("\n## ")
    assert [section.partition("\n")[0] for section in sections] == list(TABLES)
    described = {"#shared-columns": described_in(shared)}
    for section, (table, schema) in zip(sections, TABLES.items(), strict=True):
        own = described_in(section)
        named = {  # by the section that describes it
            link: re.findall(r"`(\w+)`", names)
            for link, names in re.findall(r"\[\w+\]\((#[\w-]+)\): ([^;.]*)", section)
        }
        assert sorted([*own, *(name for names in named.values() for name in names)]) == sorted(
            schema.names
        )
        described[f"#{table}"] = own
        found = own | {name: described[link][name] for link in named for name in named[link]}
        for column in columns_of(schema):
            assert found[column.name].endswith(column.description.replace("|", "\\|"))
        bold = re.findall(r"\*\*`(\w+)`\*\*", section)
        assert sorted(bold) == sorted(keys_of(schema))
        assert all(f"`{pattern}`" in section for pattern in FILES[table])
    assert "| `attention_label` | float32, probability | A(q, p_k): " in page


def described_in(section: str) -> dict[str, str]:
    """Descriptions of the columns in a section's table, by name."""
    rows = re.findall(r"^\| (?:\*\*)?`(\w+)`(?:\*\*)? \| (.*) \|$", section, re.MULTILINE)
    assert len(dict(rows)) == len(rows)
    return dict(rows)


def test_a_column_that_three_tables_describe_alike_is_shared_and_one_of_each_name() -> None:
    def table(*columns: tuple[str, str]) -> pa.Schema:
        return pa.schema([field(name, pa.int32(), description) for name, description in columns])

    first, other = ("layer", "a layer"), ("layer", "the first layer")
    tables = [table(first, ("seed", "a seed"))] * 2 + [table(other)] * 3 + [table(first)] * 2
    assert [(column.name, column.description) for column in shared_columns(tables)] == [first]


@pytest.mark.parametrize("name", TABLES)
def test_keys_are_columns_of_their_table(name: str) -> None:
    keys = keys_of(TABLES[name])
    assert keys and set(keys) <= set(TABLES[name].names)
