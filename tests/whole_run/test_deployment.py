"""The workflow from another directory, and as a module of another workflow: the same jobs."""

import os
from pathlib import Path

import pytest
import yaml

from checkout import ROOT, Checkout, messages, small_configuration
from forked_snakemake import run_snakemake


def module(snakefile: Path | str, renamed: str = "") -> str:
    """A workflow that uses all rules of this one, which it may rename."""
    return f"""
configfile: "small.yaml"


module anchorflow:
    snakefile:
        "{snakefile}"
    config:
        config


use rule * from anchorflow{renamed}
"""


def snakemake(folder: Path, *arguments: str) -> str:
    """What snakemake prints in ``folder``, with nothing that says where the package is."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    package = (folder if (folder / "workflow").is_dir() else ROOT) / "workflow"
    code, printed = run_snakemake(["--cores", "2", *arguments], folder, environment, package)
    assert code == 0, printed[-8000:]
    return printed


def planned(folder: Path, *arguments: str) -> set[str]:
    """Sentences of the jobs of a run that snakemake would start in ``folder``."""
    return messages(snakemake(folder, "--dry-run", *arguments))


@pytest.fixture
def elsewhere(tmp_path: Path, tiny_model_directory: Path) -> Path:
    """A folder with a configuration and nothing else."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    config = small_configuration(tiny_model_directory)
    config["compute"] = {"examples_per_shard": 4}
    (folder / "small.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    return folder


TARGET = "results/texts/news.parquet"


@pytest.mark.parametrize(
    "snakefile", [pytest.param("Snakefile", marks=pytest.mark.long), "workflow/Snakefile"]
)
def test_another_directory_and_another_workflow_run_the_same_jobs(
    elsewhere: Path, snakefile: str
) -> None:
    config = ("--configfile", str(elsewhere / "small.yaml"))
    named = ("--snakefile", str(ROOT / snakefile))
    there = planned(elsewhere, *named, *config)
    assert "Building the prompts of news for tiny, seed 0" in there
    assert "Gathering the shards of flow of news in tiny, seed 0" in there
    assert "Tabulating which claims hold for all models" in there
    assert planned(ROOT, *named, "--directory", str(elsewhere), *config) == there
    snakemake(elsewhere, *named, TARGET, *config)
    undisturbed = (elsewhere / TARGET).read_bytes()
    for renamed in ("", " as af_*"):
        (elsewhere / TARGET).unlink()
        text = module(ROOT / snakefile, renamed)
        (elsewhere / "Snakefile").write_text(text, encoding="utf-8")
        assert planned(elsewhere, "af_all" if renamed else "all") == there
        snakemake(elsewhere, TARGET)
        assert (elsewhere / TARGET).read_bytes() == undisturbed


def test_a_workflow_that_renames_the_rules_summarizes_plots_and_tabulates(
    finished_run: Checkout,
) -> None:
    folder = finished_run.folder
    targets = [
        *("results/summaries/flow/tiny.parquet", "results/figures/flow/tiny.png"),
        *("results/tables/flow.md", "results/tables/accuracy.md"),
    ]
    undisturbed = {target: (folder / target).read_bytes() for target in targets}
    for target in targets:
        (folder / target).unlink()
    text = module(folder / "workflow/Snakefile", " as af_*")
    (folder / "renaming.smk").write_text(text, encoding="utf-8")
    (folder / "small.yaml").write_text(yaml.safe_dump(finished_run.config), encoding="utf-8")
    printed = snakemake(folder, "--snakefile", "renaming.smk", *targets)
    assert "(Rule: af_summarize_flow)" in printed
    assert {target: (folder / target).read_bytes() for target in targets} == undisturbed
