"""The command: what it hands to Snakemake, what it prints, and with which code it ends."""

import shlex
import sys
from pathlib import Path

import pytest

from anchorflow.command.app import main
from anchorflow.config.places import REPOSITORY

BAD_TASK = "tasks:\n  mine: {source: local}\n"


def ended(monkeypatch: pytest.MonkeyPatch, folder: Path, *arguments: str) -> int | str | None:
    """The code with which ``anchorflow`` ends, run in ``folder``."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["anchorflow", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code


def test_a_run_s_command_line_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(monkeypatch, tmp_path, "init", "mine") == 0
    run = ["run", "-d", "mine", "--only", "flow,isolation", "--cores", "2", "--profile", "slurm"]
    assert ended(monkeypatch, tmp_path, *run, "--keep-going", "--print") == 0
    printed = capsys.readouterr().out.splitlines()
    assert (
        printed[0]
        == "Written: mine/config.yaml. Next: anchorflow check -d mine; anchorflow run -d mine."
    )
    known = ["--snakefile", str(REPOSITORY / "Snakefile"), "--configfile", "config.yaml"]
    further = ["--cores", "2", "--keep-going", "--profile", str(REPOSITORY / "profiles" / "slurm")]
    assert shlex.split(printed[1]) == [
        *("cd", str(tmp_path / "mine"), "&&", sys.executable, "-m", "snakemake"),
        *(*known, *further, "--", "flow", "isolation"),
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run"], "config.yaml: no such file; write one with anchorflow init"),
        (["run", "-d", "mine"], "tasks.mine"),
        (["init", "other", "--model", "nowhere"], "nowhere: no such folder"),
        (["summary", "-d", "mine"], "summary.md: no such file; finish the run first"),
    ],
)
def test_bad_input_is_one_sentence_and_the_code_2(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.yaml").write_text(BAD_TASK, encoding="utf-8")
    assert ended(monkeypatch, tmp_path, *arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("ERROR: ") and said in line


def test_windows_is_refused_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended(monkeypatch, tmp_path, "init")
    monkeypatch.setattr(sys, "platform", "win32")
    assert ended(monkeypatch, tmp_path, "run", "-d", "study") == 2
    assert "on Windows, use it in WSL" in capsys.readouterr().err


def test_an_unknown_analysis_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended(monkeypatch, tmp_path, "init")
    assert ended(monkeypatch, tmp_path, "run", "-d", "study", "--only", "flow,flows") == 2
    assert "--only: no analysis flows; there are attention, flow," in capsys.readouterr().err


def test_what_a_run_wrote_is_deleted_on_confirmation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended(monkeypatch, tmp_path, "init")
    (tmp_path / "study" / "results").mkdir()
    assert ended(monkeypatch, tmp_path, "clean", "-d", "study") == 0
    assert "To be deleted: results. Confirm with --yes." in capsys.readouterr().out
    assert (tmp_path / "study" / "results").is_dir()
    assert ended(monkeypatch, tmp_path, "clean", "-d", "study", "--yes") == 0
    assert [path.name for path in (tmp_path / "study").iterdir()] == ["config.yaml"]
