"""Digests of watched files, of which large weights are read in part."""

import os
from pathlib import Path

from anchorflow.config import contents


def content_of(path: Path) -> str:
    contents._content.cache_clear()  # a process reads a file once
    return contents.contents_of([path])[str(path)]


def test_small_files_are_read_whole_and_time_stamps_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "texts.csv"
    path.write_bytes(b"a" * 5000)
    first = content_of(path)
    os.utime(path, (1, 1))
    assert content_of(path) == first
    path.write_bytes(b"a" * 4999 + b"b")
    assert content_of(path) != first


def test_large_texts_are_read_whole(tmp_path: Path) -> None:
    path, size = tmp_path / "texts.csv", 2**24 + 2**20
    path.write_bytes(bytes(size))
    first = content_of(path)
    with open(path, "r+b") as file:
        file.seek(size // 2 + 5000)
        file.write(b"\1")
    assert content_of(path) != first


def test_of_a_large_file_parts_all_over_it_and_its_ends_are_read(tmp_path: Path) -> None:
    path, size = tmp_path / "model.safetensors", 2**25
    path.write_bytes(bytes(size))
    first = content_of(path)
    for place in (0, size - 1, size // 255):  # the first part, the last, and the second
        with open(path, "r+b") as file:
            file.seek(place)
            file.write(b"\1")
        assert content_of(path) != first
        with open(path, "r+b") as file:
            file.seek(place)
            file.write(b"\0")
        assert content_of(path) == first
    with open(path, "ab") as file:
        file.write(b"\0")
    assert content_of(path) != first
