"""Tables: what is written is read back, and anything else is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anchorflow.analyses.flow import FLOW
from anchorflow.config.errors import InputError
from anchorflow.config.table import Column, table
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.texts import TEXTS
from anchorflow.store.all_tables import TABLES
from anchorflow.store.parquet import (
    REMEDY,
    SCHEMA_VERSION,
    read_settings,
    read_table,
    read_tables,
    write_frame,
    write_table,
)
from table_files import SALIENCIES, flipped

COLUMNS: dict[str, list[Any]] = {
    "task": ["reviews", "reviews"],
    "split": ["train", "test"],
    "row": [0, 0],
    "text": ["a fine film", "naïve 😀"],
    "label": [1, 0],
}
SETTINGS = {"source": "local", "labels": [" Négatif", " Positif"]}


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """A good file of the texts table."""
    path = tmp_path / "texts.parquet"
    write_table(path, TEXTS, COLUMNS, SETTINGS)
    return path


def rewrite(path: Path, **metadata: str) -> None:
    """Replace entries of a file's metadata and leave its columns as they are."""
    table = pq.read_table(path)
    encoded = {key.encode(): value for key, value in metadata.items()}
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, **encoded}), path)


def test_a_table_is_read_back_with_its_values_and_types(texts: Path) -> None:
    frame = read_table(texts, TEXTS)
    assert frame.to_dict(as_series=False) == COLUMNS
    assert frame.schema == frame_schema(TEXTS)
    assert frame.schema["label"] == pl.Int32


def test_a_frame_is_written_like_the_same_columns(texts: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.parquet"
    write_frame(again, TEXTS, read_table(texts, TEXTS), SETTINGS)
    assert pq.read_table(again).equals(pq.read_table(texts))


def test_a_file_tells_its_settings_table_version_and_software(texts: Path) -> None:
    metadata = pq.read_schema(texts).metadata
    assert read_settings(texts) == SETTINGS
    assert metadata[b"table"] == b"texts"
    assert metadata[b"schema_version"] == str(SCHEMA_VERSION).encode()
    assert b'"anchorflow": "' in metadata[b"software"]


@pytest.mark.parametrize("name", TABLES)
def test_every_table_survives_being_written_without_rows(name: str, tmp_path: Path) -> None:
    schema = TABLES[name]
    write_frame(tmp_path / "empty.parquet", schema, pl.DataFrame(schema=frame_schema(schema)), {})
    frame = read_table(tmp_path / "empty.parquet", schema)
    assert frame.schema == frame_schema(schema)
    assert frame.is_empty()


def test_missing_and_surplus_columns_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "texts.parquet"
    for columns in ({"task": ["reviews"]}, {**COLUMNS, "surplus": [1, 2]}):
        with pytest.raises(ValueError, match="are not those of the schema"):
            write_table(path, TEXTS, columns, {})
    assert list(tmp_path.iterdir()) == []


def test_a_value_that_does_not_fit_its_type_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises((ValueError, TypeError)):
        write_table(tmp_path / "t.parquet", TEXTS, {**COLUMNS, "label": ["good", "bad"]}, {})
    assert list(tmp_path.iterdir()) == []


def test_a_missing_file_is_told_with_the_table_and_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.parquet: the texts table is missing; run the wor"):
        read_table(tmp_path / "none.parquet", TEXTS)


def with_wide_labels(path: Path) -> None:
    labels = pa.array(COLUMNS["label"], pa.int64())
    pq.write_table(pq.read_table(path).set_column(4, "label", labels), path)


def truncate(path: Path, kept: int) -> None:
    path.write_bytes(path.read_bytes()[:kept])


DAMAGED = "damaged, or not a table that this workflow wrote"
OTHER_COLUMNS = "its columns are not those of the texts table"


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        *((lambda path, kept=kept: truncate(path, kept), DAMAGED) for kept in (0, 1, 10, 200, -4)),
        (lambda path: path.write_text("task,split\n", encoding="utf-8"), DAMAGED),
        (lambda path: pl.DataFrame(COLUMNS).write_parquet(path), DAMAGED),
        (lambda path: write_frame(path, FLOW, SALIENCIES, {}), OTHER_COLUMNS),
        (lambda path: rewrite(path, table="samples"), OTHER_COLUMNS),
        (with_wide_labels, OTHER_COLUMNS),
        (
            lambda path: rewrite(path, schema_version=str(SCHEMA_VERSION + 1)),
            "written with another version of the texts table",
        ),
    ],
)
def test_a_file_that_is_not_what_it_should_be_is_refused_in_one_sentence(
    spoil: Callable[[Path], object], told: str, texts: Path
) -> None:
    spoil(texts)
    with pytest.raises(InputError) as error:
        read_table(texts, TEXTS)
    assert str(error.value) == f"{texts}: {told}; delete it and run again to rebuild it."


def test_damaged_descriptions_do_no_harm(texts: Path) -> None:
    table = pq.read_table(texts)
    damaged = [f.with_metadata({b"description": b"\xff\xfe"}) for f in table.schema]
    schema = pa.schema(damaged, metadata=table.schema.metadata)
    pq.write_table(pa.Table.from_arrays(table.columns, schema=schema), texts)
    assert read_table(texts, TEXTS).to_dict(as_series=False) == COLUMNS


def test_equal_tables_are_equal_bytes(texts: Path, tmp_path: Path) -> None:
    write_table(tmp_path / "again.parquet", TEXTS, COLUMNS, SETTINGS)
    assert (tmp_path / "again.parquet").read_bytes() == texts.read_bytes()
    write_table(tmp_path / "again.parquet", TEXTS, COLUMNS, {})
    assert (tmp_path / "again.parquet").read_bytes() != texts.read_bytes()


def test_several_files_are_read_one_below_the_other(texts: Path) -> None:
    assert read_tables([texts, texts], TEXTS)["label"].to_list() == [1, 0, 1, 0]


def test_no_flipped_bit_of_a_file_changes_what_is_read(tmp_path: Path) -> None:
    """In no page, no page's header, and not in the footer, of which some readers crash."""
    schema = table("t", "r", Column("a", "list<int32>", "x"), keys="a")
    path = tmp_path / "t.parquet"
    write_table(path, schema, {"a": [[1, 2, 3]] * 40 + [[], [4]]}, {})
    written, whole = path.read_bytes(), read_table(path, schema)
    seal = written.rfind(b"SHA-256")
    for bit in range(0, 8 * len(written), 5):  # all bits of bytes in turn
        path.write_bytes(flipped(written, bit))
        if seal <= bit // 8 < seal + 37:  # a seal that is none leaves the rest as it is
            assert read_table(path, schema).equals(whole)
            continue
        with pytest.raises(InputError) as error:
            read_table(path, schema)
        assert str(error.value).endswith(REMEDY)
