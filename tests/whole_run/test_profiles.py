"""Profiles beside the default one, which Snakemake lets win where both set the same key."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from checkout import ROOT, Checkout, small_configuration
from forked_snakemake import run_snakemake

PROFILES = {path.parent.name: path for path in ROOT.glob("profiles/*/config.yaml")}


def settings(profile: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(PROFILES[profile].read_text(encoding="utf-8"))
    return found


def test_no_setting_of_a_profile_is_lost_to_the_default_one() -> None:
    assert set(PROFILES) == {"default", "gpu", "slurm", "cluster-generic"}
    for profile in set(PROFILES) - {"default"}:
        assert not set(settings(profile)) & set(settings("default"))


def rules() -> dict[str, str]:
    """The text of every rule by its name; of those made in a loop, by how their names begin."""
    paths = sorted(ROOT.glob("workflow/rules/*.smk"))
    text = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    begins = r"^ *(?:use )?rule ?(?:\w+ as )?(\w*)(?: with)?:\n"
    _, *parts = re.split(begins, text, flags=re.MULTILINE)
    found = {}
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        begins = re.search(r'^ *name:\s+f"(\w+)_\{', body)
        found[name or (begins[1] if begins else "")] = body
    return found


def test_profiles_name_rules_and_groups_that_there_are() -> None:
    slurm, known = settings("slurm"), rules()
    assert set(slurm["set-resources"]) <= known.keys()
    grouped = {name for name, body in known.items() if re.search(r'group:\s+"presenting"', body)}
    verbs = ("summarize", "plot", "tabulate", "write_atlas")
    assert grouped == {name for name in known if name.startswith(verbs)}
    assert set(slurm["group-components"]) == {"presenting"}


@pytest.mark.parametrize(
    ("arguments", "gpus"), [([], 1), (["--profile", "profiles/gpu", "--resources", "gpu=4"], 4)]
)
def test_jobs_take_turns_on_a_gpu_unless_there_are_more(
    copy_checkout: Callable[[], Checkout], arguments: list[str], gpus: int
) -> None:
    target = "results/texts/reviews.parquet"
    printed = copy_checkout().snakemake("--cores", "1", *arguments, "--", target)
    assert f'Provided resources: gpu=Resource("gpu", {gpus})' in printed


def test_files_that_profiles_name_lie_beside_them() -> None:
    folder = Path(ROOT, "profiles")
    assert set(yaml.safe_load((folder / "slurm/partitions.yaml").read_text())["partitions"])
    assert (folder / "cluster-generic" / "status.sh").stat().st_mode & 0o111


SCHEDULER = {
    "sbatch": 'echo "$@" > asked\nfor script; do :; done\nsh "$script" > log 2>&1\necho 17\n',
    "squeue": "echo COMPLETED\n",
}


@pytest.mark.long
def test_a_profile_submits_jobs_from_any_folder(tmp_path: Path, tiny_model_directory: Path) -> None:
    """An installed package has its profiles elsewhere than where it is run."""
    for name, commands in SCHEDULER.items():
        file = tmp_path / "bin" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"#!/bin/sh\n{commands}", encoding="utf-8")
        file.chmod(0o755)
    config = yaml.safe_dump(small_configuration(tiny_model_directory))
    (tmp_path / "small.yaml").write_text(config, encoding="utf-8")
    target = "results/texts/news.parquet"
    named = ["--snakefile", str(ROOT / "Snakefile"), "--configfile", "small.yaml"]
    profile = ["--profile", str(PROFILES["cluster-generic"].parent), "--", target]
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    code, printed = run_snakemake([*named, *profile], tmp_path, environment, ROOT / "workflow")
    assert code == 0, printed[-8000:]
    assert (tmp_path / target).is_file()
    asked = (tmp_path / "asked").read_text(encoding="utf-8").split()
    assert asked[:-1] == [
        *("--parsable", "--ntasks=1", "--cpus-per-task=1", "--mem=2000", "--time=30"),
        "--output=logs/cluster/%j.log",
    ]
