"""The data dictionary against the schemas."""

import re

import pytest

from anchorflow.config.stages import files_of_tables
from anchorflow.document.tables import DICTIONARY_FILE, data_dictionary, keys_of
from anchorflow.store.all_tables import TABLES

FILES = files_of_tables()


def test_the_page_is_what_the_schemas_yield() -> None:
    assert DICTIONARY_FILE.read_text(encoding="utf-8") == data_dictionary(TABLES, FILES), (
        "docs/data_dictionary.md is behind; run make docs."
    )


def test_every_column_of_every_table_stands_in_the_section_of_its_table() -> None:
    sections = data_dictionary(TABLES, FILES).split("\n## ")[1:]
    assert [section.partition("\n")[0] for section in sections] == list(TABLES)
    for section, (table, schema) in zip(sections, TABLES.items(), strict=True):
        rows = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
        assert rows == schema.names
        assert all(f"`{pattern}`" in section for pattern in FILES[table])
    of = dict(zip(TABLES, sections, strict=True))
    assert "| `probabilities` | list of float32 | probability | softmax over" in of["predictions"]
    assert "Keys: `model`, `task`, `seed`, `example`, `layer`." in of["flow"]


@pytest.mark.parametrize("name", TABLES)
def test_keys_are_columns_of_their_table(name: str) -> None:
    keys = keys_of(TABLES[name])
    assert keys and set(keys) <= set(TABLES[name].names)
