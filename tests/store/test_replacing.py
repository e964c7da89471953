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


def a_file(path: Path, name: str) -> None:
    path.write_text(name, encoding="utf-8")


def a_folder(path: Path, name: str) -> None:
    path.mkdir()
    (path / name).touch()


def content(path: Path) -> str | list[str]:
    return os.listdir(path) if path.is_dir() else path.read_text(encoding="utf-8")


KINDS = pytest.mark.parametrize("write", [a_file, a_folder])
Writing = Callable[[Path, str], None]


@KINDS
def test_what_is_written_replaces_the_old_whole_when_the_block_succeeds(
    write: Writing, tmp_path: Path
) -> None:
    path = tmp_path / "deep" / "er" / "made"
    for name in ("old", "new"):
        with replacing(path) as temporary:
            write(temporary, name)
            assert temporary.parent == path.parent
    assert content(path) in ("new", ["new"])
    assert os.listdir(path.parent) == ["made"]


@KINDS
@pytest.mark.parametrize("existing", [False, True])
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_block_that_fails_or_is_interrupted_leaves_the_old_and_nothing_else(
    write: Writing, existing: bool, error: type[BaseException], tmp_path: Path
) -> None:
    path = tmp_path / "made"
    if existing:
        write(path, "old")
    with pytest.raises(error), replacing(path) as temporary:
        write(temporary, "new")
        raise error
    assert os.listdir(tmp_path) == (["made"] if existing else [])
    assert not existing or content(path) in ("old", ["old"])


def test_what_a_killed_job_left_goes_but_not_what_others_are_writing(tmp_path: Path) -> None:
    names = ("qwen2", "table.csv", "qwen2.5", "other.csv")
    left = {name: tmp_path / f".{name}.0123abcd.part" for name in names}
    for name, path in left.items():
        path.touch() if name.endswith(".csv") else path.mkdir()
    with replacing(tmp_path / "qwen2") as temporary:
        temporary.mkdir()
    write_csv(tmp_path / "table.csv", SALIENCIES)
    assert [name for name, path in left.items() if path.exists()] == ["qwen2.5", "other.csv"]


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
