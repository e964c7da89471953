"""Commands whose reader has left, as after ``head``: no traceback, whatever is left to print."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from anchorflow.store.checksums import write_json
from checkout import ROOT

PRINTED = "from anchorflow.config.printing import to_reader\nwith to_reader(): print('x' * {})"
COMMAND = "from anchorflow.command.entry import main; main()"


def ended(folder: Path, *arguments: str) -> tuple[int, str]:
    """Code and errors of a Python that prints into a pipe that nobody reads.

    It prints when its buffer is full, or at its end.
    """
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    reads, writes = os.pipe()
    os.close(reads)
    with os.fdopen(writes, "wb") as pipe:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=folder,
            env=environment,
            stdout=pipe,
            stderr=subprocess.PIPE,
            text=True,
        )
    return done.returncode, done.stderr


@pytest.mark.parametrize("characters", [1, 10**6])
def test_nothing_is_said_to_a_reader_that_has_left(characters: int, tmp_path: Path) -> None:
    assert ended(tmp_path, "-c", PRINTED.format(characters)) == (1, "")


@pytest.mark.parametrize(
    "arguments",
    [
        ("-m", "anchorflow.manifest"),
        pytest.param(("-m", "anchorflow.summary"), marks=pytest.mark.long),
        pytest.param(("-c", COMMAND, "summary"), marks=pytest.mark.long),
    ],
)
def test_every_command_that_prints_can_be_left(arguments: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "summary.md").write_text("# Answers\n\nyes\n", encoding="utf-8")
    write_json(tmp_path / "results" / "manifest.json", {"files": {}})
    shutil.copy(ROOT / "config" / "config.yaml", tmp_path)
    assert ended(tmp_path, *arguments) == (1, "")


@pytest.mark.long
def test_a_page_that_is_missing_is_told_in_a_sentence(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "anchorflow.summary"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stderr == "ERROR: results/summary.md: no such file; finish the run first.\n"
    assert (done.returncode, done.stdout) == (1, "")
