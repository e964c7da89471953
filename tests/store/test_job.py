"""What every job checks: that it runs the code it is recorded with, and no other."""

import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from anchorflow.config.digests import code_of, digest
from anchorflow.config.job_environment import PLANNED
from anchorflow.store import job as module
from anchorflow.store.all_tables import TABLES
from anchorflow.store.job import agreed_settings, arguments_of, job, read_usage, settings_of
from anchorflow.store.parquet import write_frame
from table_files import SALIENCIES

SCRIPTS = Path(module.__file__).parents[2] / "scripts"


class Params(dict[str, Any]):
    """Named values, as Snakemake's."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


def started(folder: Path, scripts: Path = SCRIPTS, **params: Any) -> SimpleNamespace:
    """What Snakemake gives the script that tabulates, whose code loads no library."""
    return SimpleNamespace(
        log=[str(folder / "job.log")],
        input=[],
        scriptdir=str(scripts),
        params=Params({**code_of(SCRIPTS / "gather.py"), **params}),
    )


def loaded(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Let these modules of the package be all that the process has loaded."""
    folder = Path(module.__file__).parents[1]
    files = frozenset(folder / f"{name}.py" for name in names)
    monkeypatch.setattr(module, "loaded_files", lambda: files)


def test_a_job_that_runs_what_it_is_recorded_with_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded(monkeypatch, "store/job", "config/digests", "analyses/flow/__init__")
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
    loaded(monkeypatch, "store/job", "analyses/flow/measure")
    with pytest.raises(SystemExit), job(started(tmp_path)):
        pass
    assert "measure.py was run, but is not among the code" in capsys.readouterr().err


def test_another_copy_of_the_package_or_changed_code_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(PLANNED, raising=False)
    elsewhere = started(tmp_path, tmp_path / "workflow" / "scripts")
    changed = started(tmp_path, code_anchorflow=["arrays.py 000000000000"])
    for snakemake, told in (
        (elsewhere, "this copy of the package is not the one of the workflow"),
        (changed, "arrays.py: changed since the run was planned"),
    ):
        with pytest.raises(SystemExit), job(snakemake):
            pytest.fail("the job was begun")
        assert told in capsys.readouterr().err


def test_only_code_edited_since_the_plan_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PLANNED, str(time.time() + 1))
    loaded(monkeypatch, "store/job")
    with job(started(tmp_path, code_anchorflow=["arrays.py 000000000000"])):
        pass


def test_code_that_changes_during_a_job_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    late = tmp_path / "late.py"
    late.write_text("x = 1\n", encoding="utf-8")
    monkeypatch.delenv(PLANNED, raising=False)
    loaded(monkeypatch, "store/job")
    monkeypatch.setattr(module, "tracked", lambda _: {late: digest(late)})
    with job(started(tmp_path)):
        late.write_text("x = 1  # one\n", encoding="utf-8")
    with pytest.raises(SystemExit), job(started(tmp_path)):
        late.write_text("x = 2\n", encoding="utf-8")
    assert "late.py: changed since the run was planned" in capsys.readouterr().err


def test_settings_are_the_mappings_among_the_params() -> None:
    params = Params(
        analysis="flow", statistics={"a": 1}, style={"b": 2}, code_flow=["analyses/flow/plot.py 0"]
    )
    assert settings_of(params) == {"statistics": {"a": 1}, "style": {"b": 2}}
    assert arguments_of(params) == {"a": 1, "b": 2}


def test_a_job_s_seconds_are_those_since_its_process_was_started() -> None:
    begun = time.monotonic()
    code = "import anchorflow.store.job as job; print(job._age())"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0.1 < float(ran.stdout) <= time.monotonic() - begun + 0.02


def test_settings_that_differ_between_files_are_those_of_no_summary(tmp_path: Path) -> None:
    paths = []
    for number, template in enumerate(("a {label}", "b {label}")):
        paths.append(str(tmp_path / f"{number}.parquet"))
        settings = {"scoring": "first_token", "task": {"template": template}}
        write_frame(paths[-1], TABLES["flow"], SALIENCIES, settings)
    assert agreed_settings(paths) == {"scoring": "first_token"}
    assert agreed_settings(paths[:1]).keys() == {"scoring", "task"}


def test_the_time_of_jobs_is_that_of_the_run_s_models_tasks_seeds_and_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shard, others = "measure_flow/qwen2.5/news/1/100-200", ("another/news/0", "qwen2.5/news/7")
    of_others = [f"measure_flow/{name}" for name in (*others, "qwen2.5/news/1/0-50")]
    names = ["measure_flow/qwen2.5/news/0", shard, "tabulate_flow", *of_others]
    for number, name in enumerate(names):
        file = Path(f"results/benchmarks/{name}.tsv")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"s\tcpu_time\tmax_rss\n{number}.50\t{number}.25\t9.00\n")
    usage = read_usage(["qwen2.5", "news", "0", "1", "100-200"])
    assert usage.sort("seconds").rows() == [
        ("measure_flow", ["qwen2.5", "news", "0"], 0.5, 0.25),
        ("measure_flow", ["qwen2.5", "news", "1", "100-200"], 1.5, 1.25),
        ("tabulate_flow", [], 2.5, 2.25),
    ]
