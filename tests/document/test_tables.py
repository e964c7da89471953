"""The data dictionary against the schemas."""

import re

import pyarrow as pa
import pytest

from anchorflow.config.stages import files_of_tables
from anchorflow.document.tables import DICTIONARY_FILE, data_dictionary, keys_of, shared_columns
from anchorflow.store.all_tables import TABLES

FILES = files_of_tables()


def test_the_page_is_what_the_schemas_yield() -> None:
    assert DICTIONARY_FILE.read_text(encoding="utf-8") == data_dictionary(TABLES, FILES), (
        "docs/reference/data_dictionary.md is behind; run make docs."
    )


def test_every_column_of_every_table_stands_in_the_section_of_its_table() -> None:
    head, *sections = data_dictionary(TABLES, FILES).split("\n## ")[1:]
    assert [section.partition("\n")[0] for section in sections] == list(TABLES)
    shared = dict(re.findall(r"^\| `(\w+)` \|(.*)$", head, re.MULTILINE))
    for section, (table, schema) in zip(sections, TABLES.items(), strict=True):
        own = dict(re.findall(r"^\| `(\w+)` \|(.*)$", section, re.MULTILINE))
        line = re.search(r"^Shared columns: (.*)$", section, re.MULTILINE)
        common = re.findall(r"`(\w+)`", line[1]) if line else []
        assert sorted([*own, *common]) == sorted(schema.names)
        assert all(f"`{pattern}`" in section for pattern in FILES[table])
        for field in schema:
            text = (own if field.name in own else shared)[field.name]
            assert field.metadata[b"description"].decode().replace("|", "\\|") in text
    of = dict(zip(TABLES, sections, strict=True))
    assert "Keys: `model`, `task`, `seed`, `example`, `layer`." in of["flow"]


def test_of_several_descriptions_of_a_name_the_most_frequent_is_shared() -> None:
    one, other, once = (
        pa.schema([pa.field("x", pa.int32(), metadata={"description": text, "unit": ""})])
        for text in ("one", "other", "once")
    )
    (shared,) = shared_columns([other, one, one, one, other, once])
    assert shared.metadata[b"description"] == b"one"
    assert shared_columns([one, other, once]) == []


@pytest.mark.parametrize("name", TABLES)
def test_keys_are_columns_of_their_table(name: str) -> None:
    keys = keys_of(TABLES[name])
    assert keys and set(keys) <= set(TABLES[name].names)
