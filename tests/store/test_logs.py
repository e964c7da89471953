"""Job logs: one sentence for what the user can mend, the whole traceback for a defect."""

import errno
import logging
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from anchorflow.config.errors import MORE_MEMORY, InputError
from anchorflow.store.logs import job_log

FULL_DISK = Path("/dev/full")


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    """Give the root logger back as it was; a job's process ends with its log."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "rule" / "job.log"


def exit_code(log: Path, error: BaseException) -> object:
    """The exit code with which a job ends that raises this error."""
    with pytest.raises(SystemExit) as ended, job_log(str(log)):
        raise error
    return ended.value.code


def test_standard_error_and_logging_go_to_console_and_file_and_replace_an_earlier_log(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sys.stderr
    for line in ("first", "second"):
        with job_log(str(log)):
            print(line, file=sys.stderr)
            logging.getLogger("anchorflow").info("12 prompts")
            assert sys.stderr is not before
            assert sys.stderr.isatty() == before.isatty()
        assert sys.stderr is before
        assert log.read_text(encoding="utf-8") == f"{line}\n12 prompts\n"
        assert capsys.readouterr().err == f"{line}\n12 prompts\n"


FULL = "no space left on the device; free some space and run again, finished artifacts are kept."


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (InputError("tasks.x: wrong; mend it."), "tasks.x: wrong; mend it."),
        (OSError(errno.ENOSPC, "full", "results/texts/x"), f"results/texts/x: {FULL}"),
        (OSError(errno.EDQUOT, "full", "results/texts/x"), f"results/texts/x: {FULL}"),
        (OSError(errno.ENOSPC, "full"), f"results: {FULL}"),
    ],
)
def test_what_the_user_can_mend_ends_the_job_with_one_sentence_alone(
    log: Path, capsys: pytest.CaptureFixture[str], error: Exception, sentence: str
) -> None:
    assert exit_code(log, error) == 1
    assert log.read_text(encoding="utf-8") == f"ERROR: {sentence}\n"
    assert capsys.readouterr().err == f"ERROR: {sentence}\n"


@pytest.mark.skipif(not FULL_DISK.exists(), reason="needs a device that is always full")
def test_a_full_disk_that_takes_no_log_either_still_ends_with_one_sentence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert exit_code(FULL_DISK, OSError(errno.ENOSPC, "full", "results/x")) == 1
    assert capsys.readouterr().err == f"ERROR: results/x: {FULL}\n"


@pytest.mark.parametrize(
    "defect", [ValueError("a defect"), OSError(errno.EACCES, "a defect"), KeyError("a defect")]
)
def test_a_defect_keeps_its_traceback_in_both_places(
    log: Path, capsys: pytest.CaptureFixture[str], defect: Exception
) -> None:
    assert exit_code(log, defect) == 1
    for told in (log.read_text(encoding="utf-8"), capsys.readouterr().err):
        assert told.startswith("Traceback (most recent call last):")
        assert "raise error" in told
        assert "a defect" in told.splitlines()[-1]


def rewritten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    later = path.stat().st_mtime_ns + 10**9
    os.utime(path, ns=(later, later))


@pytest.mark.parametrize("change", [rewritten, Path.unlink])
@pytest.mark.parametrize("size", [10, 2**20 + 1])
def test_an_input_that_changed_or_vanished_meanwhile_ends_the_job_with_one_sentence(
    log: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    size: int,
    change: Callable[[Path], None],
) -> None:
    path = tmp_path / "input"
    path.write_bytes(bytes(size))
    with pytest.raises(SystemExit) as ended, job_log(str(log), [str(path)]):
        change(path)
    assert ended.value.code == 1
    (told,) = capsys.readouterr().err.splitlines()
    assert told.startswith(f"ERROR: {path}: changed while a job that depends on it was running; ")


def test_a_new_time_stamp_or_a_file_in_a_folder_is_no_change_of_an_input(
    log: Path, tmp_path: Path
) -> None:
    path, folder = tmp_path / "input", tmp_path / "folder"
    path.write_text("same", encoding="utf-8")
    folder.mkdir()
    (folder / "file").touch()
    with job_log(str(log), [str(path), str(folder), str(tmp_path / "never there")]):
        path.write_text("same", encoding="utf-8")
        os.utime(path, (0, 0))
        (folder / "file").write_text("more", encoding="utf-8")
    assert log.read_text(encoding="utf-8") == ""


def test_a_defect_is_told_rather_than_that_an_input_changed(log: Path, tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.touch()
    with pytest.raises(SystemExit), job_log(str(log), [str(path)]):
        path.unlink()
        raise ValueError("a defect")
    assert log.read_text(encoding="utf-8").endswith("ValueError: a defect\n")


def test_an_interruption_is_no_error_of_the_job(log: Path) -> None:
    with pytest.raises(KeyboardInterrupt), job_log(str(log)):
        raise KeyboardInterrupt
    assert log.read_text(encoding="utf-8") == ""


def test_memory_that_ran_out_is_one_sentence(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit), job_log(str(log)):
        torch.empty(2**60)
    told = log.read_text(encoding="utf-8")
    assert told.startswith("ERROR: memory ran out (")
    assert told.endswith("; " + MORE_MEMORY + ".\n")
    assert "Traceback" not in told
    assert capsys.readouterr().err == told
