"""The commands of the README, as they are typed, on a tiny model and few texts."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from checkout import ROOT
from documentation import shell_examples

ANCHORFLOW = f"""#!/bin/sh
exec {sys.executable} -c "from anchorflow.command.entry import main; main()" "$@"
"""


@pytest.mark.long
def test_the_readme_s_commands_write_a_configuration_check_it_and_run(
    tmp_path: Path, tiny_model_directory: Path
) -> None:
    command = tmp_path / "bin" / "anchorflow"
    command.parent.mkdir()
    command.write_text(ANCHORFLOW, encoding="utf-8")
    command.chmod(0o755)
    shutil.copytree(tiny_model_directory, tmp_path / "path" / "to" / "model")
    shutil.copy(ROOT / "data" / "reviews_train.csv", tmp_path / "reviews.csv")
    environment = {
        **os.environ,
        "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "workflow"),
        "HF_HUB_OFFLINE": "1",
    }

    def shell(commands: str) -> str:
        done = subprocess.run(
            ["sh", "-e", "-c", commands],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=900,
        )
        assert done.returncode == 0, done.stdout[-8000:]
        return done.stdout

    (example,) = [block for block in shell_examples("README.md") if "anchorflow init" in block]
    init, check, rest = example.partition("anchorflow check")
    assert "The label" not in shell(init)  # words are those of the column
    file = tmp_path / "study" / "config.yaml"
    config = yaml.safe_load(file.read_text(encoding="utf-8"))
    config |= {"seeds": [0], "test_examples": 4, "controls": {"untrained": []}}
    config["isolation"]["layers"] = [1]  # of three
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    assert "Memory: " in shell(check + rest)
    for analysis in ("flow", "isolation"):
        assert (tmp_path / "study/results/figures" / analysis / "model.pdf").is_file()
