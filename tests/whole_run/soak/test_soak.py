"""That the soak tool's counting finds what is lost and what is left over."""

import json
from pathlib import Path

from anchorflow.store.checksums import sha256_of
from soak import Workflow, manifest


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
