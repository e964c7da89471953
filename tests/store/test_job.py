"""What every job checks: that it runs the code it is recorded with, and no other."""

import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from anchorflow.config import code as tracking
from anchorflow.config.code import code_of
from anchorflow.store import job as module
from anchorflow.store.job import configuration_of, job, slices_of

SCRIPTS = Path(module.__file__).parents[2] / "scripts"


@pytest.fixture(autouse=True)
def _nothing_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracking, "_known", None)


class Params(dict[str, Any]):
    """Named values, as Snakemake's."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


def started(folder: Path, scripts: Path = SCRIPTS, **params: Any) -> SimpleNamespace:
    """What Snakemake gives the script that tabulates, whose code loads no library."""
    values = {k: v(None) for k, v in code_of(SCRIPTS / "gather.py").items()}
    return SimpleNamespace(
        log=[str(folder / "job.log")],
        input=[],
        scriptdir=str(scripts),
        params=Params({**values, **params}),
    )


def loaded(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Let these modules of the package be all that the process has loaded."""
    folder = Path(module.__file__).parents[1]
    modules = {
        "anchorflow." + name.replace("/", "."): SimpleNamespace(__file__=str(folder / f"{name}.py"))
        for name in names
    }
    known = SimpleNamespace(modules=modules, platform=sys.platform)
    monkeypatch.setattr(module, "sys", known)


def test_a_job_that_runs_what_it_is_recorded_with_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded(monkeypatch, "store/job", "config/code", "schemas/flow")
    with job(started(tmp_path)):
        pass


def test_a_job_leaves_its_times_and_peak_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    loaded(monkeypatch, "store/job")
    given = started(tmp_path)
    given.log = ["logs/gather_flow/tiny/news/0.log"]
    with job(given):
        held = bytearray(b"1") * 2**26
    header, values = Path("results/benchmarks/gather_flow/tiny/news/0.tsv").read_text().splitlines()
    used = dict(zip(header.split("\t"), map(float, values.split("\t")), strict=True))
    assert used.keys() == {"s", "cpu_time", "max_rss"}
    now = time.clock_gettime(time.CLOCK_PROCESS_CPUTIME_ID)
    assert 0 < used["cpu_time"] <= now + 0.01
    assert used["s"] > 0
    assert len(held) / 2**20 < used["max_rss"] < psutil.virtual_memory().total / 2**20


def test_a_module_that_the_rule_does_not_know_is_a_defect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded(monkeypatch, "store/job", "measure/saliency")
    with pytest.raises(SystemExit), job(started(tmp_path)):
        pass
    assert "saliency.py was run, but is not among the code" in capsys.readouterr().err


def test_another_copy_of_the_package_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = tmp_path / "workflow" / "scripts"
    with pytest.raises(SystemExit), job(started(tmp_path, elsewhere)):
        pytest.fail("the job was begun")
    assert "this copy of the package is not the one of the workflow" in capsys.readouterr().err


def test_code_that_has_changed_since_the_plan_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    snakemake = started(tmp_path, code_arrays="arrays.py 000000000000")
    with pytest.raises(SystemExit), job(snakemake):
        pytest.fail("the job was begun")
    assert "arrays.py: changed since the run was planned" in capsys.readouterr().err


@pytest.mark.parametrize(("edit", "refused"), [("x = 2\n", True), ("x = 1  # one\n", False)])
def test_code_that_changes_meanwhile_is_refused_unless_it_computes_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edit: str, refused: bool
) -> None:
    file = tmp_path / "measured.py"
    file.write_text("x = 1\n", encoding="utf-8")
    snakemake = started(tmp_path)
    monkeypatch.setattr(module, "tracked", lambda _: {file: tracking.digest(file)})
    loaded(monkeypatch, "store/job")
    if refused:
        with pytest.raises(SystemExit), job(snakemake):
            file.write_text(edit, encoding="utf-8")
    else:
        with job(snakemake):
            file.write_text(edit, encoding="utf-8")


def test_slices_are_the_mappings_among_the_params() -> None:
    params = Params(presents="flow", statistics={"a": 1}, style={"b": 2}, code_numbers="numbers 1")
    assert slices_of(params) == {"statistics": {"a": 1}, "style": {"b": 2}}
    assert configuration_of(params) == {"a": 1, "b": 2}


def test_a_job_s_seconds_are_those_since_its_process_was_started() -> None:
    begun = time.monotonic()
    code = "import anchorflow.store.job as job; print(job._age())"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0.1 < float(ran.stdout) <= time.monotonic() - begun + 0.02
