"""The workflow from another directory, a repository or a wheel, and as a module: the same jobs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from anchorflow import __version__
from checkout import ROOT, Checkout, messages, small_configuration
from forked_snakemake import run_snakemake


def module(snakefile: Path | str, renamed: str = "") -> str:
    """A workflow that uses all rules of this one, which it may rename."""
    source = f'"{snakefile}"' if isinstance(snakefile, Path) else snakefile
    return f"""
configfile: "small.yaml"


module anchorflow:
    snakefile:
        {source}
    config:
        config


use rule * from anchorflow{renamed}
"""


def snakemake(folder: Path, *arguments: str, package: Path | None = None) -> str:
    """What snakemake prints in ``folder``, with nothing that says where the package is."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if package is None:
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


SNAKEFILE = ROOT / "Snakefile"
TARGET = "results/texts/news.parquet"


@pytest.mark.long
def test_another_directory_and_another_workflow_run_the_same_jobs(elsewhere: Path) -> None:
    config = ("--configfile", str(elsewhere / "small.yaml"))
    named = ("--snakefile", str(SNAKEFILE))
    there = planned(elsewhere, *named, *config)
    assert "Building the prompts of news for tiny, seed 0" in there
    assert "Gathering the shards of flow of news in tiny, seed 0" in there
    assert "Tabulating which claims hold for all models" in there
    assert planned(ROOT, *named, "--directory", str(elsewhere), *config) == there
    snakemake(elsewhere, *named, TARGET, *config)
    undisturbed = (elsewhere / TARGET).read_bytes()
    for renamed in ("", " as af_*"):
        (elsewhere / TARGET).unlink()
        text = module(ROOT / "workflow" / "Snakefile", renamed)
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


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A git repository with the files of the workflow that Snakemake fetches."""
    folder = tmp_path / "repository"
    shutil.copytree(ROOT / "workflow" / "rules", folder / "workflow" / "rules")
    for name in ("workflow/Snakefile", "workflow/anchorflow/__init__.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(ROOT / name, folder / name)
    return folder


def committed(repository: Path) -> str:
    """The repository's current state as the snakefile of a module."""
    git = ["git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"], ["tag", "one"]):
        subprocess.run([*git, *command], check=True)
    return f'gitfile("{repository}", path="workflow/Snakefile", tag="one")'


@pytest.mark.long
def test_rules_of_a_repository_are_those_of_the_installed_package(
    elsewhere: Path, repository: Path
) -> None:
    config = ("--configfile", str(elsewhere / "small.yaml"))
    there = planned(elsewhere, "--snakefile", str(SNAKEFILE), *config)
    (elsewhere / "Snakefile").write_text(module(committed(repository)), encoding="utf-8")
    assert planned(elsewhere, "all") == there
    fetched = f"git+file://{repository}/workflow/Snakefile@one"
    assert planned(elsewhere, "--snakefile", fetched, *config) == there
    snakemake(elsewhere, TARGET)
    assert (elsewhere / TARGET).is_file()


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("CITATION.cff", "version: {}\n"),
        ("workflow/envs/anchorflow.post-deploy.sh", "'anchorflow[models]=={}'"),
    ],
)
def test_files_that_name_the_version_name_the_package_s(file: str, said: str) -> None:
    assert said.format(__version__) in (ROOT / file).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("installed", "said"),
    [
        ("None", "it is not installed; run pip install 'anchorflow[workflow]=="),
        (
            "SimpleNamespace(__version__='9')",
            "9 is installed; run pip install 'anchorflow[workflow]==",
        ),
    ],
)
def test_another_version_of_the_package_is_refused_in_one_sentence(
    installed: str, said: str, elsewhere: Path, repository: Path
) -> None:
    (elsewhere / "Snakefile").write_text(module(committed(repository)), encoding="utf-8")
    program = (
        "import sys; from types import SimpleNamespace; from snakemake.cli import main\n"
        f"sys.modules['anchorflow'] = {installed}; main(['--dry-run', 'all'])"
    )
    run = subprocess.run(
        [sys.executable, "-c", program],
        cwd=elsewhere,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    assert said in run.stdout
    assert "Traceback" not in run.stdout


@pytest.mark.long
def test_a_wheel_has_the_whole_workflow(elsewhere: Path, wheel_contents: Path) -> None:
    config = ("--configfile", str(elsewhere / "small.yaml"))
    there = planned(elsewhere, "--snakefile", str(SNAKEFILE), *config)
    inside = wheel_contents / "anchorflow" / "repository"

    def run(folder: Path, *arguments: str) -> str:
        command = [sys.executable, "-m", "snakemake", "--cores", "2", *arguments]
        named = ["--snakefile", str(inside / "Snakefile")]
        environment = {**os.environ, "PYTHONPATH": str(wheel_contents)}
        done = subprocess.run(
            [*command, *named],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-8000:]
        return done.stdout

    assert messages(run(elsewhere, "--dry-run", *config)) == there
    run(elsewhere, TARGET, *config)
    assert (elsewhere / TARGET).is_file()
    # The default configuration and its texts come with it.
    empty = elsewhere.parent / "empty"
    empty.mkdir()
    default = yaml.safe_load((ROOT / "config/config.yaml").read_text(encoding="utf-8"))
    texts = [f"results/texts/{task}.parquet" for task in default["tasks"]]
    run(empty, *texts)
    assert all((empty / file).is_file() for file in texts)
    packaged = {file.name for file in (inside / "data").iterdir()}
    assert packaged == {file.name for file in (ROOT / "data").iterdir() if file.is_file()}
