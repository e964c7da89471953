"""What a user who makes a mistake sees: one sentence that names it, from the command line."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
import yaml
from transformers import DogeConfig

from checkout import Checkout
from forked_snakemake import run_snakemake

Task = dict[str, Any]

# What is refused while the run is planned.
PLANNED: dict[str, tuple[Task, str]] = {
    "unknown key": ({"templat": "x"}, r'templat: unknown key \(did you mean "template"\?\)'),
    "no file": (
        {"source": "local", "train": "no.csv", "test": "no.csv"},
        r"train: there is no file no\.csv",
    ),
}


def texts(**changes: list[object]) -> pl.DataFrame:
    columns = {"text": ["one", "two", "three", "four"], "label": [0, 1, 2, 3], **changes}
    return pl.DataFrame(columns)


# Files of a task, training and test texts, and what is said of them.
FILES: dict[str, tuple[pl.DataFrame, pl.DataFrame, str]] = {
    "column": (
        texts(),
        texts().rename({"text": "sentence"}),
        r'test\.parquet: there is no column "text" \(it has sentence, label',
    ),
    "label": (
        texts(),
        texts(label=[0, 1, 9, 3]),
        r"test\.parquet: row 3 has the label 9, which is none of 0, 1, 2, 3",
    ),
    "empty": (
        texts(text=["one", " ", "three", "four"]),
        texts(),
        r"train\.parquet: row 2 has an empty text",
    ),
    "damaged": (texts(), texts(), r"train\.parquet: not a readable parquet file"),
    "few": (texts(label=[0, 1, 2, 2]), texts(), r'the label "Technology" has 0 training texts'),
}
HUB = {"source": "hub", "repository": "nobody/nothing", "revision": "0" * 40}


@pytest.mark.parametrize("mistake", PLANNED)
def test_a_mistake_in_the_configuration_is_told_in_one_sentence(
    copy_checkout: Callable[[], Checkout], mistake: str
) -> None:
    checkout = copy_checkout()
    changes, sentence = PLANNED[mistake]
    task: Task = checkout.config["tasks"]["news"]
    task |= changes
    if "source" in changes:
        del task["corpus"]
    printed = checkout.snakemake("--dry-run", ok=False)
    assert re.search(rf"tasks\.news\.{sentence}", printed.replace("\n", " "))
    assert "Traceback" not in printed


def test_every_mistake_in_texts_words_and_models_is_told_in_one_sentence_by_its_job(
    copy_checkout: Callable[[], Checkout],
) -> None:
    """All in one run, which goes on with other jobs; no job leaves anything behind."""
    checkout = copy_checkout()
    news: Task = checkout.config["tasks"]["news"]
    tasks: dict[str, Task] = {}
    said: dict[str, tuple[str, str]] = {}  # of every artifact: its job's log, and the sentence
    for name, (train, test, sentence) in FILES.items():
        (checkout.folder / name).mkdir()
        for kind, rows in (("train", train), ("test", test)):
            rows.write_parquet(checkout.folder / name / f"{kind}.parquet")
        files = {kind: f"{name}/{kind}.parquet" for kind in ("train", "test")}
        tasks[name] = {**news, "source": "local", **files}
        del tasks[name]["corpus"]
        said[f"results/texts/{name}.parquet"] = (f"prepare_texts/{name}", sentence)
    damaged = checkout.folder / "damaged" / "train.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-40])
    of_few = said.pop("results/texts/few.parquet")[1]
    said["results/samples/few/0.parquet"] = ("prepare_samples/few/0", of_few)

    tasks["absent"] = {**news, **HUB, "train": "train", "test": "test"}
    del tasks["absent"]["corpus"]
    said["results/texts/absent.parquet"] = (
        "prepare_texts/absent",
        r"tasks\.absent: could not fetch .* work offline",
    )
    words = [" xqzw", " xqzv", " Business", " Technology"]
    values = [word.strip() for word in news["labels"]]
    tasks["alike"] = {**news, "labels": words, "values": values}
    said["results/prompts/tiny/alike/0.parquet"] = (
        "prepare_prompts/tiny/alike/0",
        r"for model tiny, label words begin with the same token: .*xqzw",
    )

    doge = DogeConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, vocab_size=99)
    doge.save_pretrained(checkout.folder / "doge")
    checkout.config["models"] |= {"absent": HUB, "doge": {"source": "local", "path": "doge"}}
    for model, sentence in (
        ("absent", r"models\.absent: could not fetch .* work offline"),
        ("doge", r"models\.doge: the architecture doge adds a bias"),
    ):
        said[f"results/tokenizers/{model}"] = (f"prepare_tokenizer/{model}", sentence)

    checkout.config["tasks"] = tasks
    printed = checkout.snakemake("--keep-going", "--cores", "2", "--", *said, ok=False)
    assert "Traceback" not in printed
    for artifact, (log, sentence) in said.items():
        assert re.search(sentence, printed), artifact
        lines = (checkout.folder / "logs" / f"{log}.log").read_text(encoding="utf-8")
        assert re.search(sentence, lines.splitlines()[-1]), (artifact, lines)
        assert not (checkout.folder / artifact).exists()
    assert not (checkout.folder / "results/models").exists()
    assert not list(checkout.folder.rglob("*.part"))


def test_a_gpu_that_is_not_there_is_told_in_one_sentence(
    copy_checkout: Callable[[], Checkout],
) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    checkout, target = copy_checkout(), "results/flow/tiny/news/0.parquet"
    checkout.config["compute"] = {"device": "cuda"}
    printed = checkout.snakemake("--cores", "2", target, ok=False)
    assert re.search(r'compute\.device: "cuda" needs a CUDA GPU', printed)
    assert "Traceback" not in printed
    assert not (checkout.folder / target).exists()


def test_a_misspelt_task_in_a_path_is_told_with_the_nearest_one(
    copy_checkout: Callable[[], Checkout],
) -> None:
    target = "results/flow/tiny/newz/0.parquet"
    printed = copy_checkout().snakemake("--dry-run", target, ok=False)
    assert 'tasks: "newz" is not in the configuration (did you mean "news"?)' in printed


def test_a_corrupt_artifact_is_named_with_the_remedy(finished_run: Checkout) -> None:
    path = finished_run.folder / "results/flow/tiny/news/0.parquet"
    path.write_bytes(b"PAR1" + bytes(200) + b"PAR1")
    (finished_run.folder / "results/summaries/flow/tiny.parquet").unlink()
    printed = finished_run.snakemake(
        "--cores", "2", "results/summaries/flow/tiny.parquet", ok=False
    )
    assert "results/flow/tiny/news/0.parquet: damaged, or not a table that" in printed
    assert "Traceback" not in printed


# Before a configuration, or in its place; the first one is of what Snakemake says itself.
HOSTILE = {
    "tag": ("a: !!python/object/apply:os.system ['touch hacked']\n", "is not valid JSON or YAML"),
    "twice": ("test_examples: 5\n", '"test_examples" appears twice in one mapping (line'),
    "path": ("models: {../../x: {source: local, path: m}}\n#", "'../../x' can't be a name"),
}


def everything(folder: Path) -> set[Path]:
    """All files that are there, without Snakemake's own and Python's."""
    own = (".snakemake", "__pycache__")
    return {path for path in folder.rglob("*") if not any(part in own for part in path.parts)}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_configuration_file_is_told_in_a_sentence_and_leaves_nothing(
    copy_checkout: Callable[[], Checkout], kind: str
) -> None:
    checkout, (before, told) = copy_checkout(), HOSTILE[kind]
    text = yaml.safe_dump(checkout.config)
    text = text.replace("\n", "\n#") if before.endswith("#") else text
    (checkout.folder / "c.yaml").write_text(before + text, encoding="utf-8")
    there = everything(checkout.folder.parent)
    arguments = ["--dry-run", "--cores", "1", "--configfile", "c.yaml"]
    environment = {**os.environ, "PYTHONPATH": ""}
    code, printed = run_snakemake(arguments, checkout.folder, environment)
    assert code == 1
    assert told in printed
    assert "Traceback" not in printed
    assert everything(checkout.folder.parent) == there


def test_braces_blanks_quotes_and_shell_words_are_planned_and_read_as_they_stand(
    copy_checkout: Callable[[], Checkout],
) -> None:
    checkout = copy_checkout()
    task = checkout.config["tasks"]["news"]
    del task["corpus"]
    path = 'data//it\'s "a" $(touch hacked); `touch hacked` & | > *[1].csv'
    labels = [" {model}", " {wildcards.seed}", " %s {0}", " $x$ | <b>"]
    rows = {"text": [f"a {{task}} {i}" for i in range(32)], "label": [0, 1, 2, 3] * 8}
    pl.DataFrame(rows).write_csv(checkout.folder / path)
    template = "{model} $(touch hacked) {{text}} %s {0} ={label}"
    task |= {"source": "local", "train": path, "test": path, "labels": labels, "template": template}
    checkout.snakemake("--cores", "1", "results/samples/news/0.parquet")
    samples = pl.read_parquet(checkout.folder / "results/samples/news/0.parquet")
    shown = samples["demonstration_texts"].explode().unique().to_list()
    assert set(shown) <= set(rows["text"])
    assert not list(checkout.folder.rglob("hacked*"))
    checkout.snakemake("--dry-run", "--cores", "1")


@pytest.mark.long
def test_prompts_longer_than_the_context_are_skipped_counted_and_shown(
    copy_checkout: Callable[[], Checkout], tiny_model_directory: Path, tmp_path: Path
) -> None:
    checkout = copy_checkout()
    folder = tmp_path / "short"
    folder.mkdir()
    for path in tiny_model_directory.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    prompts = "results/prompts/tiny/news/0.parquet"
    checkout.config["seeds"] = [0]
    checkout.config["tasks"] = {"news": checkout.config["tasks"]["news"]}
    checkout.snakemake("--cores", "2", prompts)
    lengths = pl.read_parquet(checkout.folder / prompts).filter(demonstrations="fixed")["tokens"]
    median = int(lengths.sort()[3])
    config["max_position_embeddings"] = median
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    checkout.config["models"]["tiny"]["path"] = str(folder)
    checkout.config["controls"] = {"untrained": [], "shuffled_labels": False}
    tables = [f"results/tables/accuracy.{kind}" for kind in ("csv", "md")]
    checkout.snakemake("--cores", "2", "--", *tables)
    rows = pl.read_parquet(checkout.folder / prompts).filter(demonstrations="fixed")
    skipped = int((lengths > median).sum())
    assert skipped > 0
    assert rows["skipped"].is_not_null().sum() == skipped
    accuracy = pl.read_csv(checkout.folder / "results/tables/accuracy.csv")
    assert accuracy.filter(task="news")["skipped"].unique().to_list() == [skipped]
    assert accuracy.filter(task="news")["examples"].unique().to_list() == [6 - skipped]
    table = (checkout.folder / "results/tables/accuracy.md").read_text(encoding="utf-8")
    assert f"| tiny | news | {6 - skipped} | {6 - skipped} | 1 | {skipped} |" in table
