"""Faults of machines and people: no artifact of a run is ever wrong and looks finished."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from safetensors.torch import load_file, save_file

from anchorflow.config.stages import MEASURED, PRESENTED, Stage
from anchorflow.model.opening import read_card
from anchorflow.store.checksums import fingerprints, write_json
from checkout import ROOT, Checkout
from job_messages import OPTIONAL, measures, runs_model, stages_read
from resolved_models import not_finite

# What jobs that measure read of earlier stages; all else is made by another job that measures.
PREPARED = {"texts", "samples", "prompts", "tokenizers", "models", "embeddings"}


def artifact(stage: Stage) -> str:
    """One that a measuring job writes: of another seed if it needs what such a job writes."""
    first, *_ = named = {table: path for _, table, path in stage.files()}
    pattern = named.get(stage.name, named[first])
    seed = int(not stages_read(f"measure_{stage.name}") <= PREPARED)
    return pattern.format(model="tiny", task="news", seed=seed)


# One artifact of every rule that measures; none of these jobs depends on another one.
MEASURED_ARTIFACTS = {s.name: artifact(s) for s in MEASURED if measures(s)}
MODEL_STAGES = [MEASURED_ARTIFACTS[s.name] for s in MEASURED if runs_model(s)]


@pytest.mark.long
def test_logits_that_are_not_finite_end_every_stage_in_one_sentence_without_an_artifact(
    finished_run: Checkout,
) -> None:
    model = finished_run.folder / "results/models/tiny"
    card = read_card(model)
    tensors = load_file(Path(card.pop("directory")) / "model.safetensors")
    not_finite(tensors)
    save_file(tensors, model / "model.safetensors", metadata={"format": "pt"})
    del card["weights"]
    card["files"] |= fingerprints([model / "model.safetensors"])
    write_json(model / "model.json", card)
    for path in MODEL_STAGES:
        (finished_run.folder / path).unlink()
    logs = finished_run.folder / "logs"
    shutil.rmtree(logs, ignore_errors=True)
    arguments = ["--rerun-triggers", "input", "--keep-going", "--cores", "2"]
    printed = finished_run.snakemake(*arguments, *MODEL_STAGES, ok=False)
    assert "Traceback" not in printed
    # In the logs, since progress bars of another job may stand before it on the console.
    ends = [path.read_text(encoding="utf-8").splitlines()[-1] for path in logs.rglob("*.log")]
    sentence = r"ERROR: .*(?:not|no longer) finite .*try .dtype: float32. for"
    assert len([end for end in ends if re.match(sentence, end)]) == len(MODEL_STAGES), printed
    assert not [path for path in MODEL_STAGES if (finished_run.folder / path).exists()]


# Killed

# A module by which every Python of a run gets a signal before an artifact takes its name.
SIGNALLED = """
import os, signal
rename = os.replace
def replace(source, target, **options):
    if str(source).endswith(".part") and str(target) in os.environ["SIGNALLED_BEFORE"].split():
        os.kill(os.getpid(), getattr(signal, os.environ["SIGNALLED_BY"]))
    rename(source, target, **options)
os.replace = replace
"""


def signalled(checkout: Checkout, by: str, before: list[str]) -> dict[str, str]:
    """The environment in which jobs get the signal ``by`` before they finish these artifacts."""
    return at_start(checkout, SIGNALLED) | {
        "SIGNALLED_BY": by,
        "SIGNALLED_BEFORE": " ".join(before),
    }


def at_start(checkout: Checkout, code: str) -> dict[str, str]:
    """The environment in which every Python runs this code first."""
    folder = checkout.folder / "first"
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(code, encoding="utf-8")
    return {"PYTHONPATH": "first:workflow"}


# Of a run without other label words, one subject in five: one way of writing summaries, one of
# figures, and one of tables serve all of them. ``test_manifest.py`` makes all of them again.
SHOWN = dict(
    [(name, a) for name, a in PRESENTED.items() if a.summary and name not in OPTIONAL][::5]
)

# What is killed at once does not depend on one another.
KILLED = {
    "sources": [
        "results/texts/reviews.parquet",
        "results/tokenizers/tiny",
        "results/theory/worlds.parquet",
    ],
    "prepared": [
        "results/models/tiny",
        "results/embeddings/reviews.parquet",
        "results/samples/reviews/0.parquet",
        "results/prompts/tiny/news/0.parquet",
    ],
    "measuring jobs": [*MEASURED_ARTIFACTS.values()],
    "summaries": [
        *(
            f"results/summaries/{name}/{analysis.path}.parquet".format(model="tiny")
            for name, analysis in SHOWN.items()
        ),
        "results/figures/flow_page/tiny/reviews/0",
    ],
    "figures and tables": [
        *(f"results/figures/{s}/{a.path}.png".format(model="tiny") for s, a in SHOWN.items()),
        *(f"results/tables/{name}.md" for name in SHOWN),
    ],
    "manifest": ["results/manifest.json"],
}


def contents(folder: Path, path: str) -> dict[str, bytes]:
    """The bytes of a file, or of all files in a folder."""
    found = [folder / path] if (folder / path).is_file() else (folder / path).rglob("[!.]*")
    return {str(file.relative_to(folder)): file.read_bytes() for file in found if file.is_file()}


@pytest.mark.long
@pytest.mark.parametrize("jobs", KILLED)
def test_what_was_killed_before_it_was_finished_is_made_again_with_the_same_bytes(
    finished_run: Checkout, jobs: str
) -> None:
    folder, paths = finished_run.folder, KILLED[jobs]
    if "results/models/tiny" in paths:  # whose card names where the weights lie
        card = json.loads((folder / "results/models/tiny/model.json").read_bytes())
        finished_run.config["models"]["tiny"]["path"] = card["directory"]
    undisturbed = {path: contents(folder, path) for path in paths}
    for path in paths:
        shutil.rmtree(folder / path) if (folder / path).is_dir() else (folder / path).unlink()
    environment = signalled(finished_run, "SIGKILL", before=paths)
    finished_run.snakemake("--cores", "2", "--keep-going", *paths, ok=False, **environment)
    left = [path.relative_to(folder) for path in folder.rglob("results/**/.*.part")]
    at_hand = {str(path.with_name(path.name[1:].rsplit(".", 2)[0])) for path in left}
    assert at_hand == set(paths)  # they were killed with the file at hand
    assert not [path for path in paths if (folder / path).exists()]
    finished_run.snakemake("--cores", "2", *paths)
    for path in paths:
        rebuilt = contents(folder, path)
        assert rebuilt == undisturbed[path] or "timing" in path or "claims" in path, path
        assert rebuilt.keys() == undisturbed[path].keys() != set()
    assert not list(folder.rglob("results/**/*.part"))


@pytest.mark.long
def test_a_gathering_that_was_killed_between_its_files_still_has_all_shards(
    finished_run: Checkout,
) -> None:
    folder = finished_run.folder
    finished_run.config["compute"] = {"examples_per_shard": 4}
    gathered = [f"results/attention/tiny/news/0/{t}.parquet" for t in ("attention", "predictions")]
    shard = "results/shards/attention/tiny/news/0/4-6/attention.parquet"

    def run(ok: bool, **environment: str) -> str:
        for path in gathered:
            (folder / path).unlink(missing_ok=True)
        return finished_run.snakemake("--cores", "2", *gathered, ok=ok, **environment)

    run(ok=True)
    undisturbed = {path: contents(folder, path) for path in gathered}
    run(ok=False, **signalled(finished_run, "SIGKILL", before=[shard]))
    assert not (folder / shard).exists()
    run(ok=False, **signalled(finished_run, "SIGKILL", before=gathered[1:]))
    assert (folder / shard).exists()
    printed = run(ok=True)
    assert "Measuring attention" not in printed  # no shard is lost with the gathering
    assert {path: contents(folder, path) for path in gathered} == undisturbed
    assert not list((folder / "results/shards").rglob("*.parquet"))


@pytest.mark.long
def test_a_killed_run_says_how_to_unlock_its_folder_and_then_finishes_with_the_same_bytes(
    finished_run: Checkout,
) -> None:
    folder, target = finished_run.folder, "results/isolation/tiny/news/0.parquet"
    undisturbed = (folder / target).read_bytes()
    (folder / target).unlink()
    arguments = ["--configfile", "small.yaml", "--cores", "2"]
    running = subprocess.Popen(
        [sys.executable, "-m", "snakemake", *arguments, "--", target],
        cwd=folder,
        env={**os.environ, **signalled(finished_run, "SIGSTOP", before=[target])},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_until(lambda: any((folder / target).parent.glob("*.part")))
        beside = finished_run.snakemake("--cores", "2", target, ok=False)
        assert re.search(r"Directory cannot be locked.*--unlock", beside, re.DOTALL)
        assert running.poll() is None  # the second run did it no harm
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    assert not (folder / target).exists()
    after = finished_run.snakemake("--cores", "2", target, ok=False)
    assert re.search(r"Directory cannot be locked.*--unlock", after, re.DOTALL)
    finished_run.snakemake("--unlock")
    finished_run.snakemake("--cores", "2", target)
    assert (folder / target).read_bytes() == undisturbed


def wait_until(happened: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.01)


# Inputs that change while a job runs

EDITOR = """
import os
rename = os.replace
def replace(source, target, **options):
    if str(target) == "results/texts/news.parquet":
        with open("train.csv", "a") as file:
            print("a new text,World", file=file)
    rename(source, target, **options)
os.replace = replace
"""


def test_an_artifact_of_an_input_that_changed_meanwhile_is_not_kept(
    copy_checkout: Callable[[], Checkout],
) -> None:
    checkout = copy_checkout()
    task: dict[str, Any] = checkout.config["tasks"]["news"]
    for split in ("train", "test"):
        shutil.copy(ROOT / "data" / f"news_{split}.csv", checkout.folder / f"{split}.csv")
    del task["corpus"]
    task |= {"source": "local", "train": "train.csv", "test": "test.csv"}
    target = "results/texts/news.parquet"
    environment = at_start(checkout, EDITOR)
    printed = checkout.snakemake("--cores", "2", target, ok=False, **environment)
    assert "ERROR: train.csv: changed while a job that depends on it was running; run" in printed
    assert "Traceback" not in printed
    assert not (checkout.folder / target).exists()
    checkout.snakemake("--cores", "2", target)
    texts = pl.read_parquet(checkout.folder / target)
    assert texts.filter(split="train")["text"][-1] == "a new text"


WITHOUT_ROOM = """
import resource, sys
if "/.snakemake/scripts/" in " ".join(sys.orig_argv):
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
"""


def test_a_run_whose_disk_is_full_ends_in_one_sentence_and_goes_on_when_there_is_room(
    copy_checkout: Callable[[], Checkout],
) -> None:
    checkout, target = copy_checkout(), "results/texts/news.parquet"
    environment = at_start(checkout, WITHOUT_ROOM)
    environment["PYTHONDONTWRITEBYTECODE"] = "1"  # Python leaves bytecode half-written
    printed = checkout.snakemake("--cores", "2", target, ok=False, **environment)
    assert f"ERROR: {target}: no space left on the device; free some space" in printed
    assert "Traceback" not in printed
    assert not list((checkout.folder / "results/texts").rglob("*"))
    checkout.snakemake("--cores", "2", target)
    assert (checkout.folder / target).exists()


@pytest.mark.parametrize("name", ["results", "logs"])
def test_a_run_whose_folders_can_t_be_written_says_so_before_the_first_job(
    copy_checkout: Callable[[], Checkout], name: str
) -> None:
    checkout, target = copy_checkout(), "results/texts/news.parquet"
    (checkout.folder / name).touch()
    printed = checkout.snakemake("--cores", "2", target, ok=False)
    told = "nothing can be written there (a file is where a folder should be); move it away"
    assert f"{name}: {told}" in printed
    assert "Traceback" not in printed
    assert "Reading and checking the texts of news" not in printed
