"""The commands that ask about one text, as they are typed, on a tiny model."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

from checkout import ROOT

COMMAND = [sys.executable, "-m", "anchorflow"]


@pytest.mark.long
def test_a_page_is_written_and_another_answers_until_it_is_interrupted(
    tmp_path: Path, tiny_model_directory: Path
) -> None:
    pytest.importorskip("uvicorn")  # the extra "explore"
    shutil.copy(ROOT / "data" / "reviews_train.csv", tmp_path / "reviews.csv")
    path = os.pathsep.join([str(ROOT / "workflow"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"}
    where = {"cwd": tmp_path, "env": environment, "text": True}

    def anchorflow(*arguments: str) -> str:
        done = subprocess.run([*COMMAND, *arguments], capture_output=True, timeout=600, **where)
        assert done.returncode == 0, done.stderr
        return done.stdout

    anchorflow("init", "--model", str(tiny_model_directory), "--train", "reviews.csv")
    assert anchorflow("show", "-d", "study", "--text", "</script> a fine film").endswith(
        "Written: study/flow.html\n"
    )
    page = (tmp_path / "study" / "flow.html").read_text(encoding="utf-8")
    assert page.count("<script") == page.count("</script>") == 2

    explore = [*COMMAND, "explore", "-d", "study", "--no-browser", "--port", "0"]
    with subprocess.Popen(explore, stdout=subprocess.PIPE, **where) as running:
        assert running.stdout is not None
        line = running.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", line)
        assert found, line
        with urlopen(found[0], timeout=60) as response:
            assert 'id="wording"' in response.read().decode()
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 0
        assert running.stdout.read() == "Ended.\n"
    assert anchorflow("clean", "-d", "study", "--yes") == ""
    assert not (tmp_path / "study" / "flow.html").exists()
