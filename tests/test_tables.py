"""Tables: what is written is read back, anything else is refused, and nothing is half-written."""

import os
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anchorflow.checksums import seal
from anchorflow.errors import InputError
from anchorflow.tables import (
    SALIENCY,
    SCHEMA_VERSION,
    TABLES,
    TEXTS,
    frame_schema,
    keyed,
    read_settings,
    read_table,
    read_tables,
    replacing,
    write_frame,
    write_table,
)

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


def write_sealed(path: Path, table: pa.Table) -> None:
    """A file as this project writes them, whatever the table."""
    pq.write_table(table, path)
    seal(path)


def rewrite(path: Path, **metadata: str) -> None:
    """Replace entries of a file's metadata and leave its columns as they are."""
    table = pq.read_table(path)
    encoded = {key.encode(): value for key, value in metadata.items()}
    write_sealed(path, table.replace_schema_metadata({**table.schema.metadata, **encoded}))


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
def test_every_field_of_every_table_is_described(name: str) -> None:
    schema = TABLES[name]
    assert schema.metadata[b"rows"]
    for field in schema:
        assert field.metadata[b"description"], f"{name}.{field.name}"
        assert b"unit" in field.metadata


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


@pytest.mark.parametrize("kept", [0, 1, 10, 200, -4])
def test_a_truncated_file_is_refused_in_one_sentence(texts: Path, kept: int) -> None:
    texts.write_bytes(texts.read_bytes()[:kept])
    with pytest.raises(InputError) as error:
        read_table(texts, TEXTS)
    assert str(error.value) == (
        f"{texts}: damaged, or not a table that this workflow wrote; delete it and run again to "
        "rebuild it."
    )


def test_a_file_of_another_kind_is_refused(texts: Path) -> None:
    texts.write_text("task,split\n", encoding="utf-8")
    with pytest.raises(InputError, match="damaged, or not a table that this workflow wrote"):
        read_table(texts, TEXTS)


def test_damaged_descriptions_do_no_harm(texts: Path) -> None:
    table = pq.read_table(texts)
    damaged = [f.with_metadata({b"description": b"\xff\xfe"}) for f in table.schema]
    schema = pa.schema(damaged, metadata=table.schema.metadata)
    write_sealed(texts, pa.Table.from_arrays(table.columns, schema=schema))
    assert read_table(texts, TEXTS).to_dict(as_series=False) == COLUMNS


def test_another_table_is_refused(texts: Path) -> None:
    with pytest.raises(InputError, match="its columns are not those of the saliency table; delete"):
        read_table(texts, SALIENCY)


def test_equal_columns_under_another_table_s_name_are_refused(texts: Path) -> None:
    rewrite(texts, table="samples")
    with pytest.raises(InputError, match="its columns are not those of the texts table"):
        read_table(texts, TEXTS)


def test_a_column_of_another_type_is_refused(texts: Path) -> None:
    table = pq.read_table(texts)
    wide = table.set_column(4, "label", pa.array(COLUMNS["label"], pa.int64()))
    write_sealed(texts, wide)
    with pytest.raises(InputError, match="its columns are not those of the texts table"):
        read_table(texts, TEXTS)


def test_a_parquet_file_from_elsewhere_is_refused(texts: Path) -> None:
    pl.DataFrame(COLUMNS).write_parquet(texts)
    with pytest.raises(InputError, match="damaged, or not a table that this workflow wrote"):
        read_table(texts, TEXTS)
    write_sealed(texts, pl.DataFrame(COLUMNS).to_arrow())
    with pytest.raises(InputError, match="its columns are not those of the texts table"):
        read_table(texts, TEXTS)


def test_other_readers_do_not_see_the_checksum(texts: Path) -> None:
    for frame in (pl.read_parquet(texts), pl.scan_parquet(texts).collect()):
        assert frame.to_dict(as_series=False) == COLUMNS
    assert pq.read_table(texts).to_pydict() == COLUMNS


def test_equal_tables_are_equal_bytes(texts: Path, tmp_path: Path) -> None:
    write_table(tmp_path / "again.parquet", TEXTS, COLUMNS, SETTINGS)
    assert (tmp_path / "again.parquet").read_bytes() == texts.read_bytes()
    write_table(tmp_path / "again.parquet", TEXTS, COLUMNS, {})
    assert (tmp_path / "again.parquet").read_bytes() != texts.read_bytes()


def test_a_folder_in_a_table_s_place_is_told_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r": can't be read \(Is a directory\); delete it and run"):
        read_table(tmp_path, TEXTS)


def test_another_schema_version_is_refused(texts: Path) -> None:
    rewrite(texts, schema_version=str(SCHEMA_VERSION + 1))
    with pytest.raises(InputError, match="written with another version of the texts table; delete"):
        read_table(texts, TEXTS)


def test_several_files_are_read_one_below_the_other(texts: Path) -> None:
    assert read_tables([texts, texts], TEXTS)["label"].to_list() == [1, 0, 1, 0]


def test_key_columns_are_added_with_the_table_s_types_and_order() -> None:
    measured = pl.DataFrame(
        {"s_ww": [3.0], "s_pq": [2.0], "s_wp": [1.0], "layer": [0], "example": [7]}
    )
    frame = keyed(measured, {"model": "m", "task": "t", "seed": 5}, SALIENCY)
    assert frame.schema == frame_schema(SALIENCY)
    assert frame.row(0) == ("m", "t", 5, 7, 0, 1.0, 2.0, 3.0)


def test_a_file_is_replaced_whole_when_the_block_succeeds(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "file.txt"
    for content in ("old", "new"):
        with replacing(path) as temporary:
            temporary.write_text(content, encoding="utf-8")
            assert temporary.parent == path.parent
    assert path.read_text(encoding="utf-8") == "new"
    assert os.listdir(path.parent) == ["file.txt"]


def test_a_failing_block_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    path.write_text("old", encoding="utf-8")
    with pytest.raises(RuntimeError, match="halfway"), replacing(path) as temporary:
        temporary.write_text("ne", encoding="utf-8")
        raise RuntimeError("halfway")
    assert path.read_text(encoding="utf-8") == "old"
    assert os.listdir(tmp_path) == ["file.txt"]


def test_a_directory_is_replaced_whole_when_the_block_succeeds(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    for name in ("old.txt", "new.txt"):
        with replacing(path) as temporary:
            temporary.mkdir()
            (temporary / name).touch()
    assert os.listdir(path) == ["new.txt"]
    assert os.listdir(tmp_path) == ["folder"]


@pytest.mark.parametrize("existing", [False, True])
def test_a_failing_block_leaves_the_old_directory_and_nothing_else(
    tmp_path: Path, existing: bool
) -> None:
    path = tmp_path / "folder"
    if existing:
        path.mkdir()
        (path / "old.txt").touch()
    with pytest.raises(RuntimeError, match="halfway"), replacing(path) as temporary:
        temporary.mkdir()
        (temporary / "new.txt").touch()
        raise RuntimeError("halfway")
    assert os.listdir(tmp_path) == (["folder"] if existing else [])
    assert not existing or os.listdir(path) == ["old.txt"]


def test_an_interrupted_block_leaves_nothing_half_written(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    with pytest.raises(KeyboardInterrupt), replacing(path) as temporary:
        temporary.write_text("ne", encoding="utf-8")
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []


def test_what_a_killed_job_left_goes_but_not_what_others_are_writing(tmp_path: Path) -> None:
    left, others = tmp_path / ".qwen2.0123abcd.part", tmp_path / ".qwen2.5.0123abcd.part"
    left.mkdir()
    others.mkdir()
    with replacing(tmp_path / "qwen2") as temporary:
        temporary.mkdir()
    assert not left.exists() and others.exists()
