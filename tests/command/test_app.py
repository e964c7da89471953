"""The command: what it hands to Snakemake, what it prints, and with which code it ends."""

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pytest
import yaml
from transformers import AutoConfig

from anchorflow import __version__
from anchorflow.command.app import _call, _environment, _input_is_at_fault, _own_folder
from anchorflow.command.entry import main
from anchorflow.command.estimate import needed_by
from anchorflow.config.errors import InputError
from anchorflow.config.places import REPOSITORY
from anchorflow.model.size import check_conversion
from opened_tasks import prepared
from tiny_models import GIANT

OF_MEMORY = "do not fit into the 1.0 GiB that are available"  # as tests/model/test_size.py has it
BAD_TASK = "tasks:\n  mine: {source: local}\n"


class Ended(NamedTuple):
    """How ``anchorflow`` ended: with which code, and what it printed."""

    code: int | str | None
    out: str
    err: str


Command = Callable[..., Ended]


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Run ``anchorflow`` with some arguments in the test's folder."""

    def run(*arguments: str) -> Ended:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["anchorflow", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        return Ended(end.value.code, *capsys.readouterr())

    return run


def test_a_run_s_command_line_is_printed(command: Command, tmp_path: Path) -> None:
    assert command("init", "mine") == (
        0,
        "Written: mine/config.yaml. Next: anchorflow check -d mine; anchorflow run -d mine.\n",
        "",
    )
    run = ["run", "-d", "mine", "--only", "flow, isolation", "--cores", "2", "--profile", "slurm"]
    code, printed, _ = command(*run, "--keep-going", "--print")
    known = ["--snakefile", str(REPOSITORY / "Snakefile"), "--configfile", "config.yaml"]
    further = ["--cores", "2", "--keep-going", "--profile", str(REPOSITORY / "profiles" / "slurm")]
    assert code == 0
    assert shlex.split(printed) == [
        *("cd", str(tmp_path / "mine"), "&&", sys.executable, "-m", "snakemake"),
        *(*known, *further, "--", "flow", "isolation"),
    ]


def test_a_profile_and_partitions_of_one_s_own_are_handed_on(
    command: Command, tmp_path: Path
) -> None:
    command("init")
    (tmp_path / "mine").mkdir()
    partitions = ("--slurm-partition-config", "partitions.yaml")
    code, printed, _ = command("run", "-d", "study", "--profile", "mine", *partitions, "--print")
    assert code == 0
    assert shlex.split(printed)[-4:] == [*partitions, "--profile", str(tmp_path / "mine")]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "--profile", "slurn"], "slurn is neither a folder nor one of cluster-generic, "),
        (["run"], "config.yaml: no such file; write one with anchorflow init"),
        (["run", "-d", "mine"], "tasks.mine"),
        (["run", "-d", "study", "--only", "flow,flows"], "no analysis flows; there are attention,"),
        (["check", "-d", "study", "--only", "flows"], "no analysis flows; there are attention,"),
        (["init", "other", "--revision", "main"], "--revision goes with --model"),
        (["init", "other", "--model", "nowhere"], "nowhere: no such folder"),
        (["init", "other", "--template", "x"], "--template goes with --train"),
        (["init", "other", "--labels", "x"], "--labels goes with --train"),
        (["init", "other", "--text-column", "x"], "--text-column goes with --train"),
        (["init", "other", "--label-column", "x"], "--label-column goes with --train"),
        (["run", "-d", "broken"], "config.yaml: not readable as YAML"),
        (["cite", "-d", "listed"], "config.yaml: has no keys"),
        (["init", "mine/config.yaml"], "mine/config.yaml: is a file; name another folder"),
        (["clean", "-d", "other"], "config.yaml: no such file"),
        (["clean", "-d", "listed", "--yes"], "no run has begun here; delete results yourself"),
        (["show", "-d", "study", "--model", "other"], "--model: other is none of the run's: gemma"),
        (
            ["show", "-d", "study", "--task", "other"],
            "--task: other is none of the run's: reviews.",
        ),
        (["show", "-d", "study", "--page", "study"], "--page: study is no file that can be"),
        (["show", "-d", "study", "--page", "no/x.html"], "--page: no/x.html is no file that can"),
        (["explore", "--model", "owner/name"], "--model: owner/name is no folder"),
        (["summary", "-d", "study"], "summary.md: no such file; finish the run first."),
    ],
)
def test_bad_input_is_one_sentence_and_the_code_2(
    arguments: list[str], said: str, command: Command, tmp_path: Path
) -> None:
    command("init")
    for name, text in (("mine", BAD_TASK), ("broken", "models: {"), ("listed", "- 1\n")):
        (tmp_path / name / "results").mkdir(parents=True)
        (tmp_path / name / "config.yaml").write_text(text, encoding="utf-8")
    code, _, errors = command(*arguments)
    (line,) = errors.splitlines()
    assert (code, line[:7]) == (2, "ERROR: ")
    assert said in line
    assert not (tmp_path / "other").exists()


def test_what_a_run_wrote_is_deleted_on_confirmation(command: Command, tmp_path: Path) -> None:
    command("init")
    (tmp_path / "study" / "results").mkdir()
    (tmp_path / "study" / ".snakemake").mkdir()
    (tmp_path / "study" / "config.yaml").write_text(BAD_TASK, encoding="utf-8")
    said = "To be deleted: results, .snakemake. Confirm with --yes.\n"
    assert command("clean", "-d", "study") == (0, said, "")
    assert (tmp_path / "study" / "results").is_dir()
    assert command("clean", "-d", "study", "--yes").code == 0
    assert [path.name for path in (tmp_path / "study").iterdir()] == ["config.yaml"]


def test_a_model_and_texts_of_one_s_own_are_written_into_the_configuration(
    command: Command, tmp_path: Path, tiny_model_directory: Path
) -> None:
    lines = [f"text {n},{'bad' if n % 2 else 'good'}" for n in range(20)]
    (tmp_path / "my texts.csv").write_text("\n".join(["text,label", *lines]), encoding="utf-8")
    of_mine = ["--model", str(tiny_model_directory), "--train", "my texts.csv"]
    template = ["--template", "Text: {text}\\nMood:{label}", "--labels", "Sad,Glad"]
    code, printed, _ = command("init", "study", *of_mine, *template)
    assert code == 0
    config = yaml.safe_load((tmp_path / "study/config.yaml").read_text(encoding="utf-8"))
    ((name, task),) = config["tasks"].items()
    assert name == "my_texts"
    assert task["template"] == "Text: {text}\nMood:{label}"
    assert (task["labels"], task["values"]) == ([" Sad", " Glad"], ["bad", "good"])
    assert pl.read_parquet(tmp_path / "study/test.parquet").height == 4
    (model,) = config["models"].values()
    assert (tmp_path / "study" / model["path"]).resolve() == tiny_model_directory.resolve()
    assert "The label bad has the label word ' Sad'." in printed


def test_answers_are_printed_and_works_cited(command: Command, tmp_path: Path) -> None:
    command("init")
    (tmp_path / "study/results").mkdir()
    (tmp_path / "study/results/summary.md").write_text("# Answers\n\nyes\n", encoding="utf-8")
    file = tmp_path / "study/results/figures/flow/gemma-3-270m.png"
    file.parent.mkdir(parents=True)
    file.touch()
    code, printed, _ = command("summary", "-d", "study")
    assert code == 0
    assert "yes" in printed
    assert printed.endswith("FIGURES AND TABLES\nstudy/results/figures/flow/gemma-3-270m.png\n")
    (tmp_path / "study/results/summary.md").unlink()
    _, _, errors = command("summary", "-d", "study")
    assert errors.endswith("So far, there are study/results/figures/flow/gemma-3-270m.png.\n")
    code, printed, _ = command("cite", "-d", "study")
    assert code == 0
    assert "@inproceedings{Wang2023," in printed and "Hao2021," not in printed


def test_check_and_report_call_snakemake(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "anchorflow run -d 'a study'." in command("init", "a study").out
    command("init")
    done = subprocess.CompletedProcess([], 0)
    monkeypatch.setattr("anchorflow.command.app.subprocess.run", lambda *_, **__: done)
    assert command("check", "-d", "study", "-n").code == 0  # there is nothing to estimate from
    for name, last in (("check", ["--", "prompts"]), ("report", ["--report", "report.html"])):
        code, printed, _ = command(name, "-d", "study", "--print")
        assert code == 0
        assert shlex.split(printed)[-2:] == last


def test_a_run_ends_with_the_paths_of_what_was_asked_for(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command("init")
    shown = ("flow/gemma-3-270m.png", "flow_page/gemma-3-270m/index.html", "heads/another.png")
    for name in shown:
        file = tmp_path / "study/results/figures" / name
        file.parent.mkdir(parents=True)
        file.touch()
    done = subprocess.CompletedProcess([], 0)
    monkeypatch.setattr("anchorflow.command.app.subprocess.run", lambda *_, **__: done)
    code, printed, _ = command("run", "-d", "study", "--only", "flow_page,flow,heads")
    assert (code, printed.splitlines()) == (
        0,
        [f"Written: study/results/figures/{name}" for name in (shown[1], shown[0])],
    )
    assert command("run", "-d", "study", "--only", "flow", "-n").out == ""  # nothing was written


def test_a_check_leaves_out_what_snakemake_says_of_itself(
    capfd: pytest.CaptureFixture[str],
) -> None:
    said = [
        *("Building DAG of jobs...", "Select jobs to execute...", "Execute 2 jobs...", ""),
        "tiny: 68 jobs take about 48 seconds on this machine, one after the other",
        "ERROR: texts.csv: row 3 has no label; complete or remove it.",
        "Downloading: 50%",
    ]
    printing = f"import sys; sys.stderr.write({chr(10).join(said)!r}); sys.exit(3)"
    assert _call([sys.executable, "-c", printing], quiet=True) == 3
    assert capfd.readouterr().err.splitlines() == said[-2:]


def test_the_estimate_of_some_analyses_has_what_they_read() -> None:
    assert needed_by([]) == set()
    assert needed_by(["flow"]) == {"flow"}
    assert needed_by(["landing"]) == {"landing", "kernel"}
    assert needed_by(["accuracy"]) == {"accuracy", "attention"}
    assert needed_by(["claims"]) >= {"flow", "isolation", "kernel"}


def test_the_version_is_printed(command: Command) -> None:
    assert command("--version") == (0, f"{__version__}\n", "")


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
    line: str, code: int, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> subprocess.CompletedProcess[bytes]:
        log = tmp_path / "study/logs/measure_flow/x.log"
        log.parent.mkdir(parents=True)
        log.write_text(f"Opening.\n{line}\n", encoding="utf-8")
        return subprocess.CompletedProcess([], 1)

    command("init")
    monkeypatch.setattr("anchorflow.command.app.subprocess.run", fails)
    assert command("run", "-d", "study").code == code


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


def test_a_text_s_page_is_written_and_replaces_the_one_before(
    command: Command, tmp_path: Path, resolved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command("init")
    (tmp_path / "results").mkdir()
    opened = prepared(tmp_path / "results", resolved)
    called = []
    monkeypatch.setattr("anchorflow.command.app._call", lambda line, _: called.append(line[-2:]))
    monkeypatch.setattr("anchorflow.explore.task.OpenedTask", lambda *_: opened)
    assert command("show", "-d", "study", "--text", "I laughed") == (
        0,
        "Written: study/flow.html\n",
        "",
    )
    assert called == [
        ["results/models/gemma-3-270m", "results/prompts/gemma-3-270m/reviews/0.parquet"]
    ]
    first = (tmp_path / "study/flow.html").read_text(encoding="utf-8")
    assert "".join(
        json.loads(first.partition('id="data">')[2].partition("<")[0])["texts"]
    ).endswith("Review: I laughed\nSentiment:")
    assert command("show", "-d", "study", "--page", "mine.html").out == "Written: mine.html\n"
    assert (tmp_path / "mine.html").is_file()
    code, _, errors = command("show", "-d", "study", "--text", "a", "--text", "b")
    assert code == 2 and "--text: give one for each field of reviews (text)" in errors
    assert (tmp_path / "study/flow.html").read_text(encoding="utf-8") == first


def test_a_model_of_one_s_own_is_explored_in_a_folder_of_its_own(
    tmp_path: Path, tiny_model_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folders = [_own_folder(None), _own_folder(str(tiny_model_directory))]
    assert folders[1] == _own_folder(str(tiny_model_directory))
    assert [len(list((tmp_path / "anchorflow").iterdir())), folders[0].name] == [2, "gemma-3-270m"]
    config = yaml.safe_load((folders[1] / "config.yaml").read_text(encoding="utf-8"))
    ((name, model),) = config["models"].items()
    assert folders[1].name.startswith(f"{name}-")
    assert (folders[1] / model["path"]).resolve() == tiny_model_directory.resolve()
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(InputError, match="set XDG_CACHE_HOME to a folder"):
        _own_folder(None)


def test_explore_names_the_extra_that_it_lacks(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "starlette", None)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    said = "ERROR: starlette and uvicorn: not installed; run pip install 'anchorflow[explore]'.\n"
    assert command("explore") == (2, "", said)


def test_without_its_libraries_and_on_windows_the_command_says_what_to_do(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command's own libraries come with transformers."""
    command("init")
    monkeypatch.setitem(sys.modules, "snakemake", None)
    said = "ERROR: Snakemake is not installed; run pip install 'anchorflow[workflow]'.\n"
    assert command("run", "-d", "study") == (2, "", said)
    monkeypatch.setattr(sys, "platform", "win32")
    code, _, errors = command("run", "-d", "study")
    assert code == 2 and "on Windows, use it in WSL" in errors
    monkeypatch.setitem(sys.modules, "typer", None)
    monkeypatch.delitem(sys.modules, "anchorflow.command.app")
    code, _, errors = command()
    assert code == 2 and "run pip install 'anchorflow[workflow]'." in errors


def test_a_lock_is_told_with_the_command_that_removes_it(command: Command, tmp_path: Path) -> None:
    """Snakemake leaves it where a run is killed, and has it where one is active."""
    command("init")
    locks = tmp_path / "study" / ".snakemake" / "locks"
    locks.mkdir(parents=True)
    (locks / "0.output.lock").write_text("results/texts/reviews.parquet", encoding="utf-8")
    code, _, errors = command("check", "-d", "study")
    there = str(tmp_path / "study")
    assert code == 2
    assert f"\nERROR: {there}: another run is active in this folder, or a killed" in errors
    assert errors.endswith(f"remove the lock: anchorflow run -d {there} --unlock.\n")
    assert command("run", "-d", "study", "--unlock").code == 0
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
