"""Every field of every table is described."""

import pytest

from anchorflow.schemas.frames import arrow_schema
from anchorflow.store.all_tables import TABLES


@pytest.mark.parametrize("name", TABLES)
def test_every_field_of_every_table_is_described(name: str) -> None:
    schema = arrow_schema(TABLES[name])
    assert schema.metadata[b"rows"]
    for field in schema:
        assert field.metadata[b"description"], f"{name}.{field.name}"
        assert b"unit" in field.metadata
