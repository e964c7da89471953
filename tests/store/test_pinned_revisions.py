"""Branches and tags of the Hub are looked up once; a server on this machine takes its place."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import yaml

from anchorflow.config.errors import InputError
from anchorflow.config.job_environment import PINNED
from anchorflow.config.named_models import write_out
from anchorflow.store.pinned_revisions import LOCK, pin
from checkout import ROOT
from hub_server import hub

OLD, NEW = "a" * 40, "b" * 40


@pytest.fixture
def branches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Commits by repository and revision, which the test may change; the folder is its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(PINNED, "{}")  # which is restored at the end
    found = {"org/name@main": OLD, "org/name@v1": NEW, "org/lora@main": NEW}

    def snapshot_download(repository: str, revision: str, **_: Any) -> str:
        if f"{repository}@{revision}" not in found:
            raise ValueError
        return f"cache/snapshots/{found[f'{repository}@{revision}']}"

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    return found


def pinned(*models: Any, may_look_up: bool = True) -> tuple[list[str], list[str]]:
    """The commits of some models and their adapters, and what is said."""
    config = {"models": dict(zip("abc", models, strict=False))}
    write_out(config["models"])
    said = pin(config, may_look_up)
    entries = [part for m in config["models"].values() for part in (m, m.get("adapter", {}))]
    return [part["revision"] for part in entries if "revision" in part], said


def test_a_branch_is_looked_up_once_and_stays_when_it_moves(branches: dict[str, str]) -> None:
    commits, said = pinned("org/name")
    assert (commits, len(said)) == ([OLD], 1)
    assert said[0].startswith(f"models.a: org/name@main is commit {OLD}, written down in {LOCK}")
    branches["org/name@main"] = NEW
    assert pinned("org/name") == ([OLD], [])
    # Two models of the same branch, and other ways to write it, have one commit.
    assert pinned({"repository": "org/name", "revision": "main"}, "org/name") == ([OLD, OLD], [])
    written = yaml.safe_load(LOCK.read_text(encoding="utf-8"))
    assert list(written) == ["org/name@main"]
    assert written["org/name@main"]["commit"] == OLD
    assert written["org/name@main"]["looked_up"].startswith("20")
    LOCK.unlink()
    assert pinned("org/name")[0] == [NEW]


def test_another_request_is_looked_up_and_said(branches: dict[str, str]) -> None:
    pinned("org/name")
    commits, said = pinned({"repository": "org/name", "revision": "v1"})
    assert (commits, len(said)) == ([NEW], 1)
    assert pinned("org/name") == ([OLD], [])  # which has not been forgotten


def test_adapters_are_pinned_too(branches: dict[str, str]) -> None:
    commits, said = pinned({"repository": "org/name", "adapter": "org/lora"})
    assert (commits, len(said)) == ([OLD, NEW], 2)
    assert said[1].startswith("models.a.adapter: org/lora@main is commit")


def test_commits_need_no_lock(branches: dict[str, str]) -> None:
    assert pinned({"repository": "org/else", "revision": "c" * 40}, "./folder") == (["c" * 40], [])
    assert not LOCK.exists()


def test_jobs_take_the_commit_of_their_run_or_end(branches: dict[str, str]) -> None:
    pinned("org/name")
    assert pinned("org/name", may_look_up=False) == ([OLD], [])
    LOCK.unlink()
    with pytest.raises(InputError, match=r"models\.a: models\.lock\.yaml has no org/name@main"):
        pinned("org/name", may_look_up=False)


def test_jobs_end_if_another_plan_looked_up_another_commit_meanwhile(
    branches: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pinned("org/name")
    run = os.environ[PINNED]
    LOCK.unlink()
    branches["org/name@main"] = NEW
    assert pinned("org/name")[0] == [NEW]
    assert pinned("org/name", may_look_up=False) == ([NEW], [])  # of the other run
    monkeypatch.setenv(PINNED, run)
    sentence = f"says {NEW} for org/name@main, and the run began with {OLD}; start it again"
    with pytest.raises(InputError, match=sentence):
        pinned("org/name", may_look_up=False)
    monkeypatch.delenv(PINNED)  # as on a cluster that passes no environment
    assert pinned("org/name", may_look_up=False) == ([NEW], [])


def test_what_is_not_found_leaves_no_lock(branches: dict[str, str]) -> None:
    with pytest.raises(InputError, match=r"models\.b: could not find org/none at revision main on"):
        pinned("org/name", "org/none")
    assert not LOCK.exists()


@pytest.mark.parametrize("text", ["[", "a", "[1]", "a: b", "a: {commit: main}", "a: {commit: 5}"])
def test_a_damaged_lock_is_refused(branches: dict[str, str], text: str) -> None:
    LOCK.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"models\.lock\.yaml: it does not give a commit of 40"):
        pinned("org/name")


LOOK_UP = """
import json, os, pathlib, sys
from anchorflow.config.errors import InputError
from anchorflow.config.named_models import write_out
from anchorflow.store.pinned_revisions import pin
assert "huggingface_hub" not in sys.modules  # plans that look nothing up do not import it
config = {"models": {"m": sys.argv[1]}}
write_out(config["models"])
try:
    pin(config)
    print(config["models"]["m"]["revision"])
except InputError as error:
    print(error)
"""


@pytest.mark.xdist_group("hub")
def test_the_hub_is_asked_and_without_it_the_cache(tmp_path: Path) -> None:
    def look_up(name: str, **environment: str) -> str:
        (tmp_path / LOCK).unlink(missing_ok=True)
        places = {"PYTHONPATH": str(ROOT / "workflow"), "HF_HOME": str(tmp_path / "home")}
        finished = subprocess.run(
            [sys.executable, "-c", LOOK_UP, name],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, **places, **environment},
            timeout=60,
        )
        assert finished.returncode == 0, finished.stderr
        return finished.stdout.strip()

    files = {"config.json": json.dumps({}).encode(), "model.safetensors": b"large"}
    with hub({"org/name": {OLD: files, NEW: files}}, {"main": NEW}) as server:
        online = {"HF_ENDPOINT": server.address, "HF_HUB_OFFLINE": "0"}
        assert look_up("org/name", **online) == NEW
        assert not any("safetensors" in line for line in server.asked)
        server.branches = {"main": OLD}
        assert look_up("org/name", **{**online, "HF_HUB_OFFLINE": "1"}) == NEW  # of the cache
        assert "could not find org/none at revision main on" in look_up("org/none", **online)
