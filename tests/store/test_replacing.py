"""Files and folders are replaced whole or not at all, whatever the disk."""

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from anchorflow.analyses.flow import FLOW
from anchorflow.config.errors import InputError
from anchorflow.present.page import Page, write_csv, write_page
from anchorflow.present.style import save
from anchorflow.store.parquet import write_frame
from anchorflow.store.replacing import replacing
from table_files import SALIENCIES


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


FULL_DISK = Path("/dev/full")

Writer = Callable[[Path], object]


def a_figure(path: Path) -> None:
    figure = Figure()
    figure.subplots().plot([1, 2])
    save(figure, {path.suffix[1:]: path})


WRITERS: dict[str, Writer] = {
    "table.parquet": lambda path: write_frame(path, FLOW, SALIENCIES, {}),
    "table.csv": lambda path: write_csv(path, SALIENCIES),
    "table.md": lambda path: write_page({"md": path}, Page("title", "note", SALIENCIES)),
    "figure.pdf": a_figure,
    "figure.png": a_figure,
}


@pytest.mark.skipif(not FULL_DISK.exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_is_told_by_the_file_s_name_and_leaves_the_old_file_alone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    path.write_text("the old one", encoding="utf-8")
    monkeypatch.setattr(
        "anchorflow.store.replacing.secrets.token_hex", lambda _: lead_to_full_disk(path)
    )
    with pytest.raises(InputError) as error:
        WRITERS[name](path)
    assert str(error.value) == (
        f"{path}: no space left on the device; free some space and run again, finished artifacts "
        "are kept."
    )
    assert path.read_text(encoding="utf-8") == "the old one"
    assert os.listdir(tmp_path) == [name]


def lead_to_full_disk(path: Path) -> str:
    """Make the temporary file lead to a device that is always full; returns its infix."""
    path.with_name(f".{path.name}.0.part").symlink_to(FULL_DISK)
    return "0"


@pytest.fixture
def read_only() -> Iterator[Path]:
    """A folder that this process may not write, even when it is started by root."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o555)
    nobody = 65534
    user = os.geteuid()
    if user == 0:
        os.seteuid(nobody)
    try:
        yield folder
    finally:
        os.seteuid(user)
        shutil.rmtree(folder)


@pytest.mark.parametrize("inner", ["table.parquet", "news/0.parquet"])
def test_a_read_only_folder_is_told_in_one_sentence(read_only: Path, inner: str) -> None:
    path = read_only / inner
    with pytest.raises(InputError) as error:
        write_frame(path, FLOW, SALIENCIES, {})
    assert re.fullmatch(
        rf"{path.parent}: nothing can be written there \(.*\); make the folder writable, or run in "
        "another folder.",
        str(error.value),
    )
    assert os.listdir(read_only) == []


def test_a_file_where_a_folder_should_be_is_told_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "results").touch()
    with pytest.raises(
        InputError, match=r"results/texts: nothing can be written there \(a file is"
    ):
        write_frame(tmp_path / "results/texts/x.parquet", FLOW, SALIENCIES, {})


def test_what_a_killed_job_left_goes_when_the_file_is_written_again(tmp_path: Path) -> None:
    (tmp_path / ".table.csv.12ab34cd.part").write_text("half", encoding="utf-8")
    (tmp_path / ".folder.12ab34cd.part").mkdir()
    (tmp_path / ".other.csv.12ab34cd.part").touch()
    write_csv(tmp_path / "table.csv", SALIENCIES)
    with replacing(tmp_path / "folder") as temporary:
        temporary.mkdir()
    assert sorted(os.listdir(tmp_path)) == [".other.csv.12ab34cd.part", "folder", "table.csv"]
