"""Profiles beside the default one, which Snakemake lets win where both set the same key."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT, Checkout

PROFILES = {path.parent.name: path for path in ROOT.glob("profiles/*/config.yaml")}


def settings(profile: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(PROFILES[profile].read_text(encoding="utf-8"))
    return found


def test_no_setting_of_a_profile_is_lost_to_the_default_one() -> None:
    assert set(PROFILES) == {"default", "gpu", "slurm", "cluster-generic"}
    for profile in set(PROFILES) - {"default"}:
        assert not set(settings(profile)) & set(settings("default"))


def test_profiles_name_rules_that_there_are() -> None:
    sources = [path.read_text(encoding="utf-8") for path in ROOT.glob("workflow/rules/*.smk")]
    rules = {name for source in sources for name in re.findall(r"^rule (\w+):", source, re.M)}
    slurm = settings("slurm")
    assert set(slurm["set-resources"]) <= rules
    drawn = {rule for rule in rules if rule.startswith(("summarize_", "draw_", "tabulate_"))}
    assert set(slurm["groups"]) == drawn - {"draw_samples"} | {"index_flow_pages"}


@pytest.mark.parametrize(
    ("arguments", "gpus"),
    [
        ([], 1),
        (["--profile", "profiles/gpu", "--resources", "gpu=4"], 4),
    ],
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
    for script in ("submit.sh", "status.sh"):
        assert (folder / "cluster-generic" / script).stat().st_mode & 0o111
