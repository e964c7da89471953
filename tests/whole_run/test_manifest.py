"""The manifest of a finished run: all of it, its check, and the same bytes made again."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from checkout import Checkout

MANIFEST = Path("results/manifest.json")


def check(checkout: Checkout, ok: bool = True) -> str:
    finished = subprocess.run(
        [sys.executable, "-m", "anchorflow.manifest"],
        cwd=checkout.folder,
        env={**os.environ, "PYTHONPATH": "workflow"},
        capture_output=True,
        text=True,
    )
    assert (finished.returncode == 0) == ok, finished.stdout + finished.stderr
    return finished.stdout


def listed_in(checkout: Checkout) -> dict[str, dict[str, Any]]:
    manifest = json.loads((checkout.folder / MANIFEST).read_text(encoding="utf-8"))
    files: dict[str, dict[str, Any]] = manifest["files"]
    return files


def test_a_run_lists_all_that_it_wrote_and_finds_it_unharmed(finished_run: Checkout) -> None:
    files = (finished_run.folder / "results").rglob("*")
    names = {path.relative_to(finished_run.folder).as_posix() for path in files if path.is_file()}
    benchmarks = {name for name in names if name.startswith("results/benchmarks/")}
    hidden = {name for name in names if "/." in name}
    assert listed_in(finished_run).keys() == names - benchmarks - hidden - {str(MANIFEST)}
    assert "all artifacts are what the run wrote" in check(finished_run)
    assert "Nothing to be done" in finished_run.snakemake("--dry-run", "--cores", "2")


@pytest.mark.long
def test_damaged_artifacts_are_rebuilt_by_the_commands_that_the_check_prints(
    finished_run: Checkout,
) -> None:
    folder = finished_run.folder
    damaged = ["results/flow/tiny/news/1.parquet", "results/figures/attention/tiny.png"]
    for name in damaged:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[:500] + b"\0" + content[501:])
    (folder / "results/summaries/attention/tiny.parquet").unlink()
    printed = check(finished_run, ok=False)
    for name in damaged:
        assert f"{name}: not what the run wrote; delete it.\n" in printed
    assert "results/summaries/attention/tiny.parquet: missing.\n" in printed
    remove, build = (line.split() for line in printed.splitlines()[-3:-1])
    subprocess.run(remove, cwd=folder, check=True)
    assert build[0] == "snakemake"
    finished_run.snakemake(*build[1:])
    check(finished_run)
    assert finished_run.planned() == set()


def test_a_figure_that_is_drawn_again_renews_the_manifest(finished_run: Checkout) -> None:
    finished_run.config["figures"]["font_size"] = 9
    planned = finished_run.snakemake("--dry-run", "--cores", "2")
    assert "Listing all artifacts with their checksums" in planned


@pytest.mark.long
def test_what_is_made_again_in_a_copy_of_the_run_has_the_same_bytes(finished_run: Checkout) -> None:
    """All that is presented, and one cell of all that is measured, from its samples on."""
    first, results = listed_in(finished_run), finished_run.folder / "results"
    cells = [*results.glob("*/*/news/0"), *results.glob("*/*/news/0.parquet")]
    cells.append(results / "samples" / "news" / "0.parquet")
    assert results / "prompts" / "tiny" / "news" / "0.parquet" in cells
    presented = [results / name for name in ("summaries", "figures", "tables")]
    for path in (*cells, *presented, *results.glob("summary.*")):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    finished_run.snakemake("--cores", "2")
    second = listed_in(finished_run)
    assert first.keys() == second.keys()
    changed = {name for name in first if first[name] != second[name]}
    assert not [name for name in changed if first[name]["repeatable"]]
    assert [name for name in changed if "/timing/" in name]  # measured anew, not copied
