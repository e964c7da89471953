"""Faults of machines and people: no artifact is ever wrong and looks finished, and all are told."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from conftest import ROOT, Checkout
from matplotlib.figure import Figure
from safetensors.torch import load_file, save_file

from anchorflow.checksums import changed_file, fingerprints, read_json, write_json
from anchorflow.errors import InputError
from anchorflow.figures import save
from anchorflow.fitted_weights import FittedWeights, Purpose
from anchorflow.language_model import open_model, read_card
from anchorflow.models import resolve_model
from anchorflow.tables import (
    SALIENCY,
    frame_schema,
    read_settings,
    read_table,
    replacing,
    write_frame,
)
from anchorflow.tabulate import write_csv, write_html, write_markdown
from anchorflow.tokenizer_files import open_tokenizer
from anchorflow.tokenizers import resolve_tokenizer

FULL_DISK = Path("/dev/full")
CPU = torch.device("cpu")
SALIENCIES = pl.DataFrame(
    {
        "model": "m",
        "task": "t",
        "seed": 0,
        "example": [e for e in range(20) for _ in range(3)],
        "layer": [0, 1, 2] * 20,
        "s_wp": [1 / (n + 1) for n in range(60)],
        "s_pq": [1 / (n + 2) for n in range(60)],
        "s_ww": [1 / (n + 3) for n in range(60)],
    },
    schema=frame_schema(SALIENCY),
)


@pytest.fixture(scope="session")
def resolved(tmp_path_factory: pytest.TempPathFactory, tiny_model_directory: Path) -> Path:
    """A folder with a tokenizer, and with a model whose weights lie in ``source``."""
    folder = tmp_path_factory.mktemp("resolved")
    shutil.copytree(tiny_model_directory, folder / "source")
    resolve(folder)
    return folder


def resolve(folder: Path) -> None:
    settings = {"source": "local", "path": str(folder / "source"), "dtype": "float32"}
    resolve_tokenizer("tiny", settings, folder / "tokenizer")
    resolve_model("tiny", settings, folder / "tokenizer", folder / "model")


@pytest.fixture
def copied(resolved: Path, tmp_path: Path) -> Path:
    """A private copy of the resolved model, with its weights inside as converted ones are."""
    shutil.copytree(resolved, tmp_path / "copy")
    return with_own_weights(tmp_path / "copy")


def with_own_weights(folder: Path) -> Path:
    shutil.move(folder / "source" / "model.safetensors", folder / "model")
    card = read_card(folder / "model")
    card["files"] |= card.pop("weights")
    del card["directory"]
    write_json(folder / "model" / "model.json", card)
    return folder


def flipped(content: bytes, bit: int) -> bytes:
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


# Damaged artifacts


def test_every_flipped_bit_of_a_table_is_found(tmp_path: Path) -> None:
    path = tmp_path / "saliency.parquet"
    settings = {"saliency": {"demonstrations": "fixed"}, "confidence": 0.95}
    write_frame(path, SALIENCY, SALIENCIES, settings)
    content = path.read_bytes()
    for bit in random.Random(0).sample(range(8 * len(content)), 800):
        path.write_bytes(flipped(content, bit))
        for read in (lambda: read_table(path, SALIENCY), lambda: read_settings(path)):
            with pytest.raises(InputError) as error:
                read()
            told = f"{path}: damaged, or not a table that this workflow wrote; delete it and run"
            assert str(error.value).startswith(told)


@pytest.mark.parametrize(
    "file",
    [
        "tokenizer/tokenizer.json",
        "tokenizer/config.json",
        "tokenizer/architecture.json",
        "model/config.json",
        "model/model.json",
        "model/model.safetensors",
    ],
)
@pytest.mark.parametrize("fault", ["flipped", "truncated", "missing"])
def test_a_damaged_file_of_a_model_is_named_with_the_remedy(
    copied: Path, file: str, fault: str
) -> None:
    path = copied / file
    content = path.read_bytes()
    brace = content.index(b"e") * 8  # within a name or a number, not white space
    for bit in [brace, *random.Random(0).sample(range(8 * len(content)), 7)]:
        if fault == "missing":
            path.unlink()
        else:
            path.write_bytes(flipped(content, bit) if fault == "flipped" else content[: bit // 8])
        try:
            open_tokenizer(copied / "tokenizer") if "tokenizer" in file else open_model(
                copied / "model", CPU
            )
        except InputError as error:
            told = f"{path}: missing or damaged; delete {path.parent} and run again"
            assert str(error).startswith(told)
        else:
            # What a card says is the same if only white space is not.
            assert json.loads(path.read_bytes()) == json.loads(content)
            assert bit != brace
        path.write_bytes(content)


def test_a_large_file_is_read_again_only_if_it_was_touched_after_its_fingerprint(
    tmp_path: Path,
) -> None:
    large, card = tmp_path / "weights", tmp_path / "card"
    large.write_bytes(bytes(2**24 + 8))
    known = fingerprints([large])
    time.sleep(0.02)
    card.touch()
    assert changed_file(tmp_path, known, card) is None
    before = large.stat().st_mtime_ns
    time.sleep(0.02)
    large.write_bytes(bytes(2**24 + 7) + b"x")  # of the same size, and as old as it was
    os.utime(large, ns=(before, before))
    assert changed_file(tmp_path, known, card) == large
    large.write_bytes(bytes(2**24 + 8))  # put back
    assert changed_file(tmp_path, known, card) is None
    large.write_bytes(bytes(2**24 + 7))
    assert changed_file(tmp_path, known, card) == large
    large.unlink()
    assert changed_file(tmp_path, known, card) == large


def test_json_with_a_checksum_is_read_back_and_anything_else_refused(tmp_path: Path) -> None:
    path, content = tmp_path / "card.json", {"name": "café", "difference": 1.5e-07, "files": {}}
    write_json(path, content)
    assert read_json(path, "mend it") == content
    for damaged in ("", "[]", "{}", "7", path.read_text(encoding="utf-8").replace("1.5", "2.5")):
        path.write_text(damaged, encoding="utf-8")
        with pytest.raises(InputError, match=r"card\.json: missing or damaged; mend it\."):
            read_json(path, "mend it")


# Weights that are not what they were, or are no weights


def test_weights_replaced_under_the_same_name_are_refused_even_if_no_newer(
    resolved: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(resolved, folder)
    resolve(folder)
    weights = folder / "source" / "model.safetensors"
    before = weights.stat().st_mtime_ns
    tensors = load_file(weights)
    tensors["model.norm.weight"] += 1
    save_file(tensors, weights, metadata={"format": "pt"})
    os.utime(weights, ns=(before, before))
    with pytest.raises(InputError) as error:
        open_model(folder / "model", CPU)
    assert str(error.value) == (
        f"models.tiny: {weights} is missing or not what it was when the model was resolved; put it "
        f"back, or delete {folder / 'model'} and run again with the new weights."
    )
    shutil.rmtree(folder / "model")
    resolve(folder)
    assert open_model(folder / "model", CPU).model.norm.weight[0] == 2


def lacking(tensors: dict[str, torch.Tensor]) -> None:
    del tensors["model.layers.1.mlp.up_proj.weight"]


def of_other_size(tensors: dict[str, torch.Tensor]) -> None:
    tensors["model.layers.1.mlp.up_proj.weight"] = torch.zeros(3, 3)


def not_finite(tensors: dict[str, torch.Tensor]) -> None:
    tensors["model.norm.weight"][0] = torch.nan


def of_one_more_layer(tensors: dict[str, torch.Tensor]) -> None:
    tensors["model.layers.3.mlp.up_proj.weight"] = torch.zeros(48, 32)


@pytest.mark.parametrize(
    ("break_it", "sentence"),
    [
        (of_one_more_layer, "layers that its configuration does not count (model.layers.3.mlp.up"),
        (lacking, "lacks the weights model.layers.1.mlp.up_proj.weight, which would be random; re"),
        (of_other_size, "can't be read (they have other sizes than its configuration says); repl"),
        (not_finite, "its logits are not finite on a random prompt; replace its weights with a c"),
        (None, "can't be read ("),
    ],
)
def test_weights_that_are_incomplete_or_broken_are_refused_when_they_are_resolved(
    resolved: Path,
    tmp_path: Path,
    break_it: Callable[[dict[str, torch.Tensor]], None] | None,
    sentence: str,
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(resolved / "source", folder / "source")
    weights = folder / "source" / "model.safetensors"
    if break_it is None:
        weights.write_bytes(weights.read_bytes()[:-100])
    else:
        tensors = load_file(weights)
        break_it(tensors)
        save_file(tensors, weights, metadata={"format": "pt"})
    with pytest.raises(InputError) as error:
        resolve(folder)
    assert str(error.value).startswith("models.tiny: ")
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)
    assert sorted(os.listdir(folder)) == ["source", "tokenizer"]


def test_layers_that_predict_further_tokens_are_left_unread(
    tiny_model_directory: Path, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    shutil.copytree(tiny_model_directory, source)
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    config["num_nextn_predict_layers"] = 1
    (source / "config.json").write_text(json.dumps(config), encoding="utf-8")
    tensors = load_file(source / "model.safetensors")
    of_one_more_layer(tensors)
    save_file(tensors, source / "model.safetensors", metadata={"format": "pt"})
    resolve(tmp_path)
    assert open_model(tmp_path / "model", CPU).config.num_hidden_layers == 3


@pytest.mark.parametrize(
    ("file", "key", "value"),
    [
        ("config.json", "num_attention_heads", 0),
        ("config.json", "num_attention_heads", "x"),
        ("config.json", "num_hidden_layers", None),
        ("config.json", "hidden_size", -4),
        ("config.json", "max_position_embeddings", None),
        ("config.json", "model_type", ["llama"]),
        ("config.json", "dtype", "nope"),
        ("config.json", None, []),
        ("tokenizer_config.json", None, []),
        ("tokenizer.json", None, {}),
    ],
)
def test_a_model_s_description_that_makes_no_sense_is_told_in_one_sentence(
    tiny_model_directory: Path, tmp_path: Path, file: str, key: str | None, value: Any
) -> None:
    shutil.copytree(tiny_model_directory, tmp_path / "source")
    path = tmp_path / "source" / file
    content = {**json.loads(path.read_text(encoding="utf-8")), key: value} if key else value
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(InputError) as error:
        resolve(tmp_path)
    assert str(error.value).startswith("models.tiny: ")
    assert "\n" not in str(error.value)
    assert os.listdir(tmp_path) == ["source"]


OWN_CODE = """
from pathlib import Path
from transformers import LlamaConfig
Path("{trace}").touch()
class Own(LlamaConfig):
    model_type = "own"
"""


@pytest.mark.parametrize("kind", ["llama", "own"])
def test_code_beside_a_model_is_never_run(
    tiny_model_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    source, trace = tmp_path / "source", tmp_path / "trace"
    shutil.copytree(tiny_model_directory, source)
    (source / "own.py").write_text(OWN_CODE.format(trace=trace), encoding="utf-8")
    for file, named in (("config.json", "AutoConfig"), ("tokenizer_config.json", "AutoTokenizer")):
        content = json.loads((source / file).read_text(encoding="utf-8"))
        content["auto_map"] = {named: "own.Own", "AutoModelForCausalLM": "own.Own"}
        if file == "config.json":
            content["model_type"] = kind
        (source / file).write_text(json.dumps(content), encoding="utf-8")
    monkeypatch.setattr("builtins.input", lambda _="": "y")  # to whether code should be run
    if kind == "llama":
        resolve(tmp_path)
        open_model(tmp_path / "model", CPU)
    else:
        with pytest.raises(InputError, match="can't be read as a transformers model"):
            resolve(tmp_path)
    assert not trace.exists()


def test_every_flipped_bit_of_fitted_weights_is_found(tmp_path: Path) -> None:
    path = tmp_path / "beta.safetensors"
    purpose = Purpose("model", "{text}:{label}", (" a", " b"), (("text", 1),))
    weights = FittedWeights(torch.rand(3, 4, 2), purpose, 0.1, 10, 1)
    weights.save(path)
    torch.testing.assert_close(FittedWeights.load(path).beta, weights.beta, rtol=0, atol=0)
    content = path.read_bytes()
    for bit in random.Random(0).sample(range(8 * len(content)), 400):
        path.write_bytes(flipped(content, bit))
        try:
            loaded = FittedWeights.load(path)
        except InputError as error:
            assert str(error).startswith(f"{path}: missing, damaged, or not a file of fitted")
        else:  # some bits of safetensors' own header mean nothing
            assert torch.equal(loaded.beta, weights.beta)
            assert loaded.purpose == purpose


# One artifact of every rule that runs the model; none of these jobs depends on another one.
MODEL_STAGES = [
    "results/attention/tiny/news/0.parquet",
    "results/saliency/tiny/news/0.parquet",
    "results/isolation/tiny/news/0.parquet",
    "results/reweighting/tiny/news/0/beta.parquet",
    "results/compression/tiny/news/1.parquet",
    "results/timing/tiny/news/0.parquet",
    "results/diagnosis/tiny/news/0.parquet",
    "results/kernel/tiny/news/0/kernel.parquet",
    "results/retrieval/tiny/news/1/predictions.parquet",
    "results/token_saliency/tiny/news/0.parquet",
]


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
    arguments = ["--rerun-triggers", "input", "--keep-going", "--cores", "2"]
    printed = finished_run.snakemake(*arguments, *MODEL_STAGES, ok=False)
    assert "Traceback" not in printed
    sentence = r"^ERROR: .*(?:not|no longer) finite .*try .dtype: float32. for"
    assert len(re.findall(sentence, printed, re.MULTILINE)) == len(MODEL_STAGES)
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


DRAWN = [
    *("claims", "confusion", "decoding", "deep", "flow", "heads", "landing", "loyalty"),
    *("neighbors", "regressors", "retention"),
]
SUMMARIES = [*DRAWN, "accuracy", "performance"]

# What is killed at once does not depend on one another.
KILLED = {
    "sources": ["results/texts/reviews.parquet", "results/tokenizers/tiny"],
    "prepared": [
        "results/models/tiny",
        "results/embeddings/reviews.parquet",
        "results/samples/reviews/0.parquet",
    ],
    "prompts": ["results/prompts/tiny/reviews/0.parquet"],
    "model jobs": [
        *(path.replace("kernel.parquet", "states.parquet") for path in MODEL_STAGES),
        "results/probes/tiny/news/1.parquet",
    ],
    "summaries": [
        *(f"results/{stage}/tiny.parquet" for stage in SUMMARIES),
        "results/flow_page/tiny/reviews/0",
    ],
    "figures and tables": [
        *(f"results/figures/{stage}/tiny.png" for stage in DRAWN),
        *(f"results/tables/{stage}.md" for stage in SUMMARIES),
    ],
    "manifest": ["results/manifest.json"],
}


def contents(folder: Path, path: str) -> dict[str, bytes]:
    """The bytes of a file, or of all files in a folder."""
    found = [folder / path] if (folder / path).is_file() else (folder / path).rglob("[!.]*")
    return {str(file.relative_to(folder)): file.read_bytes() for file in found if file.is_file()}


@pytest.mark.parametrize("jobs", KILLED)
def test_what_was_killed_before_it_was_finished_is_made_again_with_the_same_bytes(
    finished_run: Checkout, jobs: str
) -> None:
    folder, paths = finished_run.folder, KILLED[jobs]
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


def test_a_gathering_that_was_killed_between_its_files_still_has_all_shards(
    finished_run: Checkout,
) -> None:
    folder = finished_run.folder
    finished_run.config["compute"] = {"examples_per_shard": 4}
    gathered = [f"results/{stage}/tiny/news/0.parquet" for stage in ("attention", "predictions")]
    shard = "results/shards/attention/tiny/news/0/4-6.parquet"

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
    assert "ERROR: train.csv: changed while a job was running that depends on it; run" in printed
    assert "Traceback" not in printed
    assert not (checkout.folder / target).exists()
    checkout.snakemake("--cores", "2", target)
    texts = pl.read_parquet(checkout.folder / target)
    assert texts.filter(split="train")["text"][-1] == "a new text"


# Disks


Writer = Callable[[Path], object]


def a_figure(path: Path) -> None:
    figure = Figure()
    figure.subplots().plot([1, 2])
    save(figure, {path.suffix[1:]: path})


WRITERS: dict[str, Writer] = {
    "table.parquet": lambda path: write_frame(path, SALIENCY, SALIENCIES, {}),
    "table.csv": lambda path: write_csv(path, SALIENCIES),
    "table.md": lambda path: write_markdown(path, "title", "note", SALIENCIES),
    "table.html": lambda path: write_html(path, "title", "note", SALIENCIES),
    "figure.pdf": a_figure,
    "figure.png": a_figure,
}


@pytest.mark.skipif(not FULL_DISK.exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_is_told_by_the_file_s_name_and_leaves_the_old_file_alone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    path.write_text("the old one", encoding="utf-8")
    monkeypatch.setattr("anchorflow.tables.secrets.token_hex", lambda _: lead_to_full_disk(path))
    with pytest.raises(InputError) as error:
        WRITERS[name](path)
    assert str(error.value) == (
        f"{path}: no space left on the device; free some space and run again, finished artifacts "
        "are kept."
    )
    assert path.read_text(encoding="utf-8") == "the old one"
    assert os.listdir(tmp_path) == [name]


def lead_to_full_disk(path: Path) -> str:
    """Make the temporary file lead to a device that is always full; returns its infix."""
    path.with_name(f".{path.name}.0.part").symlink_to(FULL_DISK)
    return "0"


LIMITED = """
import resource, sys, torch
from anchorflow.fitted_weights import FittedWeights, Purpose
from anchorflow.logs import job_log
from anchorflow.models import resolve_model
from anchorflow.tokenizers import resolve_tokenizer
folder, kind, limit = sys.argv[1], sys.argv[2], int(sys.argv[3])
settings = {"source": "local", "path": f"{folder}/source", "dtype": "float32"}
with job_log(f"{folder}.log"):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    if kind == "tokenizer":
        resolve_tokenizer("tiny", settings, f"{folder}/tokenizer")
    elif kind == "model":
        resolve_model("tiny", settings, f"{folder}/tokenizer", f"{folder}/model")
    else:
        beta = FittedWeights(torch.zeros(2, 2, 2), Purpose("", "", (), ()), 0.1, 1, 1)
        beta.save(f"{folder}/beta.safetensors")
"""


@pytest.mark.parametrize(
    ("kind", "limit"), [("tokenizer", 5000), ("model", 500), ("beta.safetensors", 100)]
)
def test_what_there_is_no_room_for_is_not_left_half_written(
    resolved: Path, tmp_path: Path, kind: str, limit: int
) -> None:
    folder = tmp_path / "folder"
    shutil.copytree(resolved, folder)
    shutil.rmtree(folder / kind, ignore_errors=True)
    finished = subprocess.run(
        [sys.executable, "-c", LIMITED, str(folder), kind, str(limit)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "workflow")},
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 1
    assert f"ERROR: {folder / kind}: no space left on the device; free some" in finished.stderr
    assert "Traceback" not in finished.stderr
    assert sorted(os.listdir(folder)) == sorted({"source", "tokenizer", "model"} - {kind})


@pytest.fixture
def read_only() -> Iterator[Path]:
    """A folder that this process may not write, even when it is started by root."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o555)
    nobody = 65534
    user = os.geteuid()
    if user == 0:
        os.seteuid(nobody)
    try:
        yield folder
    finally:
        os.seteuid(user)
        shutil.rmtree(folder)


@pytest.mark.parametrize("inner", ["table.parquet", "news/0.parquet"])
def test_a_read_only_folder_is_told_in_one_sentence(read_only: Path, inner: str) -> None:
    path = read_only / inner
    with pytest.raises(InputError) as error:
        write_frame(path, SALIENCY, SALIENCIES, {})
    assert re.fullmatch(
        rf"{path.parent}: nothing can be written there \(.*\); make the folder writable, or run in "
        "another folder.",
        str(error.value),
    )
    assert os.listdir(read_only) == []


def test_a_file_where_a_folder_should_be_is_told_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "results").touch()
    with pytest.raises(
        InputError, match=r"results/texts: nothing can be written there \(a file is"
    ):
        write_frame(tmp_path / "results/texts/x.parquet", SALIENCY, SALIENCIES, {})


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


def test_what_a_killed_job_left_goes_when_the_file_is_written_again(tmp_path: Path) -> None:
    (tmp_path / ".table.csv.12ab34cd.part").write_text("half", encoding="utf-8")
    (tmp_path / ".folder.12ab34cd.part").mkdir()
    (tmp_path / ".other.csv.12ab34cd.part").touch()
    write_csv(tmp_path / "table.csv", SALIENCIES)
    with replacing(tmp_path / "folder") as temporary:
        temporary.mkdir()
    assert sorted(os.listdir(tmp_path)) == [".other.csv.12ab34cd.part", "folder", "table.csv"]
