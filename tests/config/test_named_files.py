"""Paths in the configuration, inside packages and outside, and digests of what files hold."""

import os
from pathlib import Path

import pytest

from anchorflow.config import named_files
from anchorflow.config.errors import InputError
from anchorflow.config.named_files import local_model, packaged

HERE = Path(__file__).parent


def test_a_path_without_package_stays_as_it_is() -> None:
    assert packaged("encoder.path", "models/mine") == Path("models/mine")


@pytest.mark.parametrize(
    ("described", "base"),
    [
        ("{}", "repository: owner/name"),
        ("[", "repository: owner/name"),
        ('{"base_model_name_or_path": "org/base"}', "repository: org/base"),
        (
            f'{{"base_model_name_or_path": "{Path(__file__).parent}"}}',
            f"path: {Path(__file__).parent}",
        ),
    ],
)
def test_the_line_for_an_adapter_without_its_model_is_told(
    tmp_path: Path, described: str, base: str
) -> None:
    (tmp_path / "adapter_config.json").write_text(described, encoding="utf-8")
    with pytest.raises(InputError) as error:
        local_model("tiny", str(tmp_path))
    line = f"models: {{tiny: {{{base}, adapter: {tmp_path}}}}}."
    assert str(error.value).endswith(f"is an adapter without its model; name both, as in {line}")


def content_of(path: Path) -> str:
    named_files._content.cache_clear()  # a process reads a file once
    return named_files.contents_of([path])[str(path)]


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
