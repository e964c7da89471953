"""A model of the Hub by its name alone: one commit from the first check to the last job."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from checkout import ROOT
from hub_server import hub

OLD, NEW = "a" * 40, "b" * 40
COMMAND = "from anchorflow.command.entry import main; main()"


@pytest.mark.long
@pytest.mark.xdist_group("hub")
def test_a_model_of_the_hub_is_checked_and_run_at_one_commit(
    tmp_path: Path, tiny_model_directory: Path
) -> None:
    files = {path.name: path.read_bytes() for path in tiny_model_directory.iterdir()}
    with hub({"org/tiny": {OLD: files, NEW: files}}, {"main": OLD}) as server:
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT / "workflow"),
            "HF_HOME": str(tmp_path / "home"),
            "HF_ENDPOINT": server.address,
            "HF_HUB_OFFLINE": "0",
        }

        def command(*arguments: str, **changed: str) -> str:
            done = subprocess.run(
                [sys.executable, "-c", COMMAND, *arguments],
                cwd=tmp_path,
                env={**environment, **changed},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=600,
            )
            assert done.returncode == 0, done.stdout[-8000:]
            return done.stdout

        command("init", "study", "--model", "org/tiny", "--revision", "main")
        file = tmp_path / "study" / "config.yaml"
        config = yaml.safe_load(file.read_text(encoding="utf-8"))
        assert config["models"] == {"tiny": {"repository": "org/tiny", "revision": "main"}}
        small = {"seeds": [0], "test_examples": 4, "models": {"tiny": "org/tiny"}}
        config["isolation"]["layers"] = [1]  # of three
        file.write_text(yaml.safe_dump({**config, **small}), encoding="utf-8")
        assert f"org/tiny@main is commit {OLD}" in command("check", "-d", "study")
        server.branches = {"main": NEW}
        command("run", "-d", "study", "--cores", "2", "--", "results/models/tiny")
        card = tmp_path / "study" / "results" / "models" / "tiny" / "model.json"
        described = json.loads(card.read_text(encoding="utf-8"))
        assert (described["repository"], described["revision"]) == ("org/tiny", OLD)
        planned = ("run", "-d", "study", "-n", "--cores", "2", "--", "results/models/tiny")
        offline = command(*planned, HF_HUB_OFFLINE="1")
        assert "Nothing to be done" in offline
        assert "Revision aaaa" in command("cite", "-d", "study")
        (tmp_path / "study" / "models.lock.yaml").unlink()
        anew = command(*planned)
    assert f"org/tiny@main is commit {NEW}" in anew
    assert "Resolving the tokenizer" in anew
