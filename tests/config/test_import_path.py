"""Which process a job's Snakemake names as the run: itself, or that of the same SLURM job."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from anchorflow.config import import_path
from anchorflow.config.import_path import RUN, share_with_jobs

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux")

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (RUN, import_path._SERVES, "SLURM_JOB_ID", "PYTHONPATH"):
        monkeypatch.setenv(name, "")  # so that what the test leaves is undone
        monkeypatch.delenv(name)


@pytest.fixture
def other() -> Iterator[subprocess.Popen]:
    """Another process, such as the Snakemake that starts one per step."""
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def started_by(process: subprocess.Popen, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the environment that a process of this run would give."""
    monkeypatch.setenv(RUN, str(process.pid))
    monkeypatch.setenv(import_path._SERVES, import_path._identity(str(process.pid)))


def test_a_run_names_itself_and_its_package_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"/other{os.pathsep}{HERE}")
    share_with_jobs(HERE)
    assert os.environ[RUN] == str(os.getpid())
    assert os.environ["PYTHONPATH"] == f"{HERE}{os.pathsep}/other"


def test_a_step_of_a_slurm_job_names_the_run_that_started_it(
    other: subprocess.Popen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    started_by(other, monkeypatch)
    share_with_jobs(HERE)
    assert os.environ[RUN] == str(other.pid)
    assert import_path.in_served_step()


def test_a_step_of_a_run_that_serves_none_is_a_run_of_its_own(
    other: subprocess.Popen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv(RUN, str(other.pid))
    share_with_jobs(HERE)
    assert os.environ[RUN] == str(os.getpid())
    assert not import_path.in_served_step()
    import_path.serve_steps()
    assert import_path.in_served_step()


@pytest.mark.parametrize(
    "differs", ["no job", "other job", "ended", "other process", "no name", "no proc"]
)
def test_any_other_run_names_itself(
    other: subprocess.Popen, monkeypatch: pytest.MonkeyPatch, differs: str
) -> None:
    if differs != "no job":
        monkeypatch.setenv("SLURM_JOB_ID", "7")
    if differs == "no proc":
        monkeypatch.setattr(import_path, "_identity", lambda _: "")
    started_by(other, monkeypatch)
    if differs == "other job":  # which one on this computer has submitted
        monkeypatch.setenv("SLURM_JOB_ID", "8")
    elif differs == "ended":
        other.kill()
        other.wait()
    elif differs == "other process":  # on another node, or after that one has ended
        monkeypatch.setenv(RUN, str(os.getppid()))
    elif differs == "no name":
        monkeypatch.delenv(RUN)
    share_with_jobs(HERE)
    assert os.environ[RUN] == str(os.getpid())
