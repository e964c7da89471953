"""The command: what it hands to Snakemake, what it prints, and with which code it ends."""

import shlex
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
import yaml
from transformers import AutoConfig

from anchorflow.command.app import _environment, _input_is_at_fault
from anchorflow.command.entry import main
from anchorflow.config.errors import InputError
from anchorflow.config.places import REPOSITORY
from anchorflow.model.memory import check_conversion
from tiny_models import GIANT

OF_MEMORY = "do not fit into the 1.0 GiB that are available"  # as tests/model/test_memory.py has it
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
    run = ["run", "-d", "mine", "--only", "flow, isolation", "--cores", "2", "--profile", "slurm"]
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


def test_a_profile_and_partitions_of_one_s_own_are_handed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended(monkeypatch, tmp_path, "init")
    (tmp_path / "mine").mkdir()
    partitions = ("--slurm-partition-config", "partitions.yaml")
    own = ("--profile", "mine", *partitions, "--print")
    assert ended(monkeypatch, tmp_path, "run", "-d", "study", *own) == 0
    command = shlex.split(capsys.readouterr().out.splitlines()[-1])
    assert command[-4:] == [*partitions, "--profile", str(tmp_path / "mine")]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "--profile", "slurn"], "slurn is neither a folder nor one of cluster-generic, "),
        (["run"], "config.yaml: no such file; write one with anchorflow init"),
        (["run", "-d", "mine"], "tasks.mine"),
        (["init", "other", "--revision", "main"], "--revision goes with --model"),
        (["init", "other", "--model", "nowhere"], "nowhere: no such folder"),
        (["run", "-d", "broken"], "config.yaml: not readable as YAML"),
        (["cite", "-d", "listed"], "config.yaml: has no keys"),
        (["init", "mine/config.yaml"], "mine/config.yaml: is a file; name another folder"),
        (["clean", "-d", "other"], "config.yaml: no such file"),
        (["clean", "-d", "listed", "--yes"], "no run has begun here; delete results yourself"),
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
    for name, text in (("broken", "models: {"), ("listed", "- 1\n")):
        (tmp_path / name / "results").mkdir(parents=True)
        (tmp_path / name / "config.yaml").write_text(text, encoding="utf-8")
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
    (tmp_path / "study" / ".snakemake").mkdir()
    (tmp_path / "study" / "config.yaml").write_text(BAD_TASK, encoding="utf-8")
    assert ended(monkeypatch, tmp_path, "clean", "-d", "study") == 0
    assert "To be deleted: results, .snakemake. Confirm with --yes." in capsys.readouterr().out
    assert (tmp_path / "study" / "results").is_dir()
    assert ended(monkeypatch, tmp_path, "clean", "-d", "study", "--yes") == 0
    assert [path.name for path in (tmp_path / "study").iterdir()] == ["config.yaml"]


def test_a_model_and_texts_of_one_s_own_are_written_into_the_configuration(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tiny_model_directory: Path,
) -> None:
    lines = [f"text {n},{'bad' if n % 2 else 'good'}" for n in range(20)]
    (tmp_path / "my texts.csv").write_text("\n".join(["text,label", *lines]), encoding="utf-8")
    of_mine = ["--model", str(tiny_model_directory), "--train", "my texts.csv"]
    template = ["--template", "Text: {text}\\nMood:{label}", "--labels", "Sad,Glad"]
    assert ended(monkeypatch, tmp_path, "init", "study", *of_mine, *template) == 0
    config = yaml.safe_load((tmp_path / "study/config.yaml").read_text(encoding="utf-8"))
    ((name, task),) = config["tasks"].items()
    assert name == "my_texts"
    assert task["template"] == "Text: {text}\nMood:{label}"
    assert (task["labels"], task["values"]) == ([" Sad", " Glad"], ["bad", "good"])
    assert pl.read_parquet(tmp_path / "study/test.parquet").height == 4
    (model,) = config["models"].values()
    assert (tmp_path / "study" / model["path"]).resolve() == tiny_model_directory.resolve()
    assert "The label bad has the label word ' Sad'." in capsys.readouterr().out


@pytest.mark.parametrize("option", ["--template", "--labels", "--text-column", "--label-column"])
def test_what_is_about_texts_goes_with_texts(
    option: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ended(monkeypatch, tmp_path, "init", "study", option, "x") == 2
    assert f"{option} goes with --train" in capsys.readouterr().err
    assert not (tmp_path / "study").exists()


def test_answers_are_printed_and_works_cited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended(monkeypatch, tmp_path, "init")
    (tmp_path / "study/results").mkdir()
    (tmp_path / "study/results/summary.md").write_text("# Answers\n\nyes\n", encoding="utf-8")
    assert ended(monkeypatch, tmp_path, "summary", "-d", "study") == 0
    assert "yes" in capsys.readouterr().out
    assert ended(monkeypatch, tmp_path, "cite", "-d", "study") == 0
    printed = capsys.readouterr().out
    assert "@inproceedings{Wang2023," in printed and "Hao2021," not in printed


def test_check_and_report_call_snakemake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended(monkeypatch, tmp_path, "init", "a study")
    assert "anchorflow run -d 'a study'." in capsys.readouterr().out
    ended(monkeypatch, tmp_path, "init")
    done = subprocess.CompletedProcess([], 0)
    monkeypatch.setattr("anchorflow.command.app.subprocess.run", lambda *_, **__: done)
    assert ended(monkeypatch, tmp_path, "check", "-d", "study", "-n") == 0  # nothing to estimate
    assert ended(monkeypatch, tmp_path, "check", "-d", "study", "--print") == 0
    assert shlex.split(capsys.readouterr().out.splitlines()[-1])[-2:] == ["--", "prompts"]
    assert ended(monkeypatch, tmp_path, "report", "-d", "study", "--print") == 0
    printed = shlex.split(capsys.readouterr().out)
    assert printed[-2:] == ["--report", "report.html"]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("ERROR: texts.csv: row 3 has no label; complete or remove it.", 2),
        ("ERROR: results: no space left on the device; free some space and run again.", 1),
        ("ERROR: memory ran out (out of memory); choose a smaller model.", 1),
        ("ERROR: example 3: its prompt of 900 tokens does not fit into memory even alone.", 1),
        (f"ERROR: models.tiny: 2.0 GiB of weights in float32 {OF_MEMORY} in main memory.", 1),
        ("Traceback (most recent call last):", 1),
    ],
)
def test_the_code_tells_bad_input_from_other_failures(
    line: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> subprocess.CompletedProcess[bytes]:
        log = tmp_path / "study/logs/measure_flow/x.log"
        log.parent.mkdir(parents=True)
        log.write_text(f"Opening.\n{line}\n", encoding="utf-8")
        return subprocess.CompletedProcess([], 1)

    ended(monkeypatch, tmp_path, "init")
    monkeypatch.setattr("anchorflow.command.app.subprocess.run", fails)
    assert ended(monkeypatch, tmp_path, "run", "-d", "study") == code


def test_a_machine_that_is_too_small_is_not_the_input_s_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    giant = AutoConfig.for_model("llama", num_attention_heads=64, **GIANT)
    with pytest.raises(InputError, match="that are available in main memory") as refused:
        check_conversion("giant", giant, "float32")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/x.log").write_text(f"ERROR: {refused.value}\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert not _input_is_at_fault(0)


def test_without_snakemake_the_command_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command's own libraries come with transformers."""
    ended(monkeypatch, tmp_path, "init")
    monkeypatch.setitem(sys.modules, "snakemake", None)
    assert ended(monkeypatch, tmp_path, "run", "-d", "study") == 2
    said = "ERROR: Snakemake is not installed; run pip install 'anchorflow[workflow]'.\n"
    assert capsys.readouterr().err == said


def test_without_its_libraries_the_command_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "typer", None)
    monkeypatch.delitem(sys.modules, "anchorflow.command.app")
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert "run pip install 'anchorflow[workflow]'." in capsys.readouterr().err


def test_a_lock_is_told_with_the_command_that_removes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Snakemake leaves it where a run is killed, and has it where one is active."""
    ended(monkeypatch, tmp_path, "init")
    locks = tmp_path / "study" / ".snakemake" / "locks"
    locks.mkdir(parents=True)
    (locks / "0.output.lock").write_text("results/texts/reviews.parquet", encoding="utf-8")
    assert ended(monkeypatch, tmp_path, "check", "-d", "study") == 2
    there = str(tmp_path / "study")
    assert capsys.readouterr().err == (
        f"ERROR: {there}: another run is active in this folder, or a killed one left its lock; "
        "wait for it, and only if none is active, remove the lock: "
        f"anchorflow run -d {there} --unlock.\n"
    )
    assert ended(monkeypatch, tmp_path, "run", "-d", "study", "--unlock") == 0
    assert not locks.exists()


def test_where_home_has_no_cache_the_run_s_folder_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert "XDG_CACHE_HOME" not in _environment()
    monkeypatch.setenv("HOME", "/dev/null")
    assert _environment()["XDG_CACHE_HOME"] == str(tmp_path / ".snakemake" / "cache")
    assert "HF_HOME" not in _environment()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "read_only"))
    (tmp_path / "read_only" / "huggingface").mkdir(parents=True)
    (tmp_path / "read_only" / "snakemake").touch()  # so that no folder can be made there
    assert _environment()["HF_HOME"] == str(tmp_path / "read_only" / "huggingface")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert _environment()["XDG_CACHE_HOME"] == str(tmp_path / "cache")
