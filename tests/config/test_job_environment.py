"""What a run tells its jobs by the environment."""

import os
import sysconfig
import time
from pathlib import Path

import pytest

from anchorflow.config.job_environment import PLANNED, RUN, share_with_jobs

HERE = Path(__file__).parent


def test_a_run_names_itself_and_its_package_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"/other{os.pathsep}{HERE}")
    monkeypatch.setenv(PLANNED, "0")
    monkeypatch.setenv(RUN, "1")  # of a run that has started this one
    share_with_jobs(HERE)
    assert os.environ["PYTHONPATH"] == os.pathsep.join([str(HERE), "/other"])
    assert os.environ[RUN] == str(os.getpid())
    assert 0 <= time.time() - float(os.environ[PLANNED]) < 60


def test_installed_packages_do_not_come_before_python_s_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/other")
    for name in (PLANNED, RUN):
        monkeypatch.setenv(name, "1")
    share_with_jobs(Path(sysconfig.get_path("purelib")))
    assert os.environ["PYTHONPATH"] == "/other"


def test_a_snakemake_that_a_cluster_runs_shares_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setenv(PLANNED, "0")
    monkeypatch.setenv(RUN, "1")
    monkeypatch.setattr("sys.argv", ["snakemake", "--cores", "2", "--mode", "remote"])
    share_with_jobs(HERE)
    assert RUN not in os.environ
    assert os.environ[PLANNED] != "0"
