"""That the soak test's counting finds what is lost and what is left over."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from soak import Disturbed, Undisturbed, Workflow, figures, manifest, soak

from anchorflow.checksums import sha256_of


def test_what_is_missing_changed_or_left_over_is_counted(tmp_path: Path) -> None:
    workflow = Workflow(tmp_path / "run", [])
    results = workflow.folder / "results"
    results.mkdir()
    files = {}
    for name in ("same", "changed", "missing", "timed", "timed_and_missing"):
        (results / name).write_text(name, encoding="utf-8")
        digest = sha256_of(results / name)
        files[f"results/{name}"] = {"sha256": digest, "repeatable": "timed" not in name}
    (results / "manifest.json").write_text(json.dumps({"files": files}), encoding="utf-8")
    expected = manifest(workflow.folder)
    assert workflow.lost(expected) == [] and workflow.left_over() == []
    for name in ("changed", "timed"):
        (results / name).write_text("other", encoding="utf-8")
    for name in ("missing", "timed_and_missing"):
        (results / name).unlink()
    (results / ".same.0123abcd.part").touch()
    lost = ["results/changed", "results/missing", "results/timed_and_missing"]
    assert workflow.lost(expected) == lost
    assert workflow.left_over() == [str(results / ".same.0123abcd.part")]


def test_figures_add_up_over_runs() -> None:
    calm = Disturbed(["everything"], 12.0, 2, 11, 5, [], [])
    lossy = Disturbed(["one process", "everything"], 20.5, 3, 14, 5, ["a", "b"], ["c"])
    assert figures(Undisturbed(10.0, 9), [calm, lossy]) == {
        "runs": 2,
        "kills": 3,
        "reruns_needed": 3,
        "jobs": 25,
        "jobs_undisturbed": 18,
        "seconds": 32,
        "seconds_undisturbed": 20,
        "artifacts": 10,
        "artifacts_lost": 2,
        "files_left_over": 1,
    }


def test_runs_on_record_are_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    undisturbed = tmp_path / "undisturbed.json"
    undisturbed.write_text(json.dumps(asdict(Undisturbed(10.0, 9))), encoding="utf-8")
    asked = []

    def run(number: int, kills: int, arguments: list[str], folder: Path, seed: int) -> Disturbed:
        asked.append(number)
        return Disturbed(["everything"] * kills, 12.0, kills + 1, 9 + number, 5, [], [])

    monkeypatch.setattr("soak.run_disturbed", run)
    first = soak(2, 3, [], tmp_path, 0)
    assert soak(4, 3, [], tmp_path, 0)[:2] == first
    assert asked == [0, 1, 2, 3]
