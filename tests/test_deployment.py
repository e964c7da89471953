"""The workflow from another directory, and as a module of another workflow: the same jobs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from conftest import ROOT, small_configuration

MODULE = f"""
configfile: "small.yaml"


module anchorflow:
    snakefile:
        "{ROOT}/Snakefile"
    config:
        config


use rule * from anchorflow
"""


def planned(folder: Path, *arguments: str) -> set[str]:
    """Sentences of the jobs of a run that snakemake would start in ``folder``."""
    finished = subprocess.run(
        [sys.executable, "-m", "snakemake", "--dry-run", "--cores", "2", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "workflow")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    assert finished.returncode == 0, finished.stdout[-8000:]
    jobs = [line for line in finished.stdout.splitlines() if line.startswith("Job ")]
    return {job.partition(": ")[2] for job in jobs}


@pytest.fixture
def elsewhere(tmp_path: Path, tiny_model_directory: Path) -> Path:
    """A folder with a configuration and nothing else."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    config = small_configuration(tiny_model_directory)
    config["compute"] = {"examples_per_shard": 4}
    (folder / "small.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    return folder


def test_another_directory_and_another_workflow_run_the_same_jobs(elsewhere: Path) -> None:
    config = ("--configfile", str(elsewhere / "small.yaml"))
    there = planned(elsewhere, "--snakefile", str(ROOT / "Snakefile"), *config)
    assert "Building the prompts of news for tiny, seed 0" in there
    assert "Gathering the shards of saliency of news in tiny, seed 0" in there
    assert "Tabulating which claims hold for all models" in there
    assert planned(ROOT, "--directory", str(elsewhere), *config) == there
    (elsewhere / "Snakefile").write_text(MODULE, encoding="utf-8")
    assert planned(elsewhere) == there
