"""That the soak test's counting finds what is lost and what is left over."""

import json
from pathlib import Path

import pytest

from anchorflow.store.checksums import sha256_of
from soak import (
    Disturbed,
    Record,
    Settings,
    Undisturbed,
    Workflow,
    figures,
    manifest,
    read_record,
    soak,
    write_record,
)


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


CALM = Disturbed(["everything"], 12.0, 2, 11, 5, [], [])
LOSSY = Disturbed(["one process", "everything"], 20.5, 3, 14, 5, ["a", "b"], ["c"])
RECORD = Record(Settings(3, "2", 0), Undisturbed(10.0, 9), [CALM, LOSSY])


def test_figures_add_up_over_runs() -> None:
    assert figures(RECORD) == {
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


def test_runs_on_record_are_taken_as_they_are(tmp_path: Path) -> None:
    assert read_record(tmp_path, RECORD.settings) is None
    write_record(tmp_path, RECORD)
    assert soak(2, RECORD.settings, tmp_path / "configuration.yaml", tmp_path) == RECORD


def test_a_folder_begun_with_other_settings_is_refused(tmp_path: Path) -> None:
    write_record(tmp_path, RECORD)
    with pytest.raises(SystemExit, match=r"begun with .*'kills': 3.*; go on with these, or else"):
        read_record(tmp_path, Settings(4, "2", 0))
