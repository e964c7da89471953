"""What a user who makes a mistake sees: one sentence that names it, from the command line."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from transformers import BloomConfig

from checkout import Checkout

Break = Callable[[Checkout], None]


def with_files(checkout: Checkout, train: pl.DataFrame, test: pl.DataFrame) -> None:
    """Make the task "news" read these local files."""
    train.write_parquet(checkout.folder / "train.parquet")
    test.write_parquet(checkout.folder / "test.parquet")
    task: dict[str, Any] = checkout.config["tasks"]["news"]
    del task["corpus"]
    task |= {"source": "local", "train": "train.parquet", "test": "test.parquet"}


def texts(**changes: list[object]) -> pl.DataFrame:
    columns = {"text": ["one", "two", "three", "four"], "label": [0, 1, 2, 3], **changes}
    return pl.DataFrame(columns)


def unknown_key(checkout: Checkout) -> None:
    checkout.config["tasks"]["news"]["templat"] = "x"


def no_text_in_template(checkout: Checkout) -> None:
    checkout.config["tasks"]["news"]["template"] = "Article\nAnswer:{label}"


def missing_file(checkout: Checkout) -> None:
    with_files(checkout, texts(), texts())
    (checkout.folder / "test.parquet").unlink()


def missing_column(checkout: Checkout) -> None:
    with_files(checkout, texts(), texts().rename({"text": "sentence"}))


def unknown_label(checkout: Checkout) -> None:
    with_files(checkout, texts(), texts(label=[0, 1, 9, 3]))


def empty_text(checkout: Checkout) -> None:
    with_files(checkout, texts(text=["one", " ", "three", "four"]), texts())


def too_few_texts(checkout: Checkout) -> None:
    with_files(checkout, texts(label=[0, 1, 2, 2]), texts())


def corrupt_parquet(checkout: Checkout) -> None:
    with_files(checkout, texts(), texts())
    path = checkout.folder / "train.parquet"
    path.write_bytes(path.read_bytes()[:-40])


def colliding_labels(checkout: Checkout) -> None:
    task = checkout.config["tasks"]["news"]
    task["values"] = [word.strip() for word in task["labels"]]
    task["labels"] = [" xqzw", " xqzv", " Business", " Technology"]


def unreachable_hub(checkout: Checkout) -> None:
    task: dict[str, Any] = checkout.config["tasks"]["news"]
    del task["corpus"]
    task |= {
        "source": "hub",
        "repository": "nobody/nothing",
        "revision": "0" * 40,
        "train": "train",
        "test": "test",
    }


def unreachable_model(checkout: Checkout) -> None:
    model = {"source": "hub", "repository": "nobody/nothing", "revision": "0" * 40}
    checkout.config["models"]["tiny"] = model


def alibi(checkout: Checkout) -> None:
    folder = checkout.folder / "bloom"
    BloomConfig(hidden_size=16, n_layer=1, n_head=2, vocab_size=99).save_pretrained(folder)
    checkout.config["models"]["tiny"]["path"] = "bloom"


def no_gpu(checkout: Checkout) -> None:
    checkout.config["compute"] = {"device": "cuda"}


CASES: list[tuple[Break, str, str]] = [
    (unknown_key, "--dry-run", r'tasks\.news\.templat: unknown key \(did you mean "template"\?\)'),
    (no_text_in_template, "--dry-run", r"tasks\.news\.template: .* must contain \{text\} exactly"),
    (missing_file, "--dry-run", r"tasks\.news\.test: there is no file test\.parquet"),
    (missing_column, "texts", r'test\.parquet: there is no column "text" \(it has sentence, label'),
    (unknown_label, "texts", r"test\.parquet: row 3 has the label 9, which is none of 0, 1, 2, 3"),
    (empty_text, "texts", r"train\.parquet: row 2 has an empty text"),
    (corrupt_parquet, "texts", r"train\.parquet: not a readable parquet file"),
    (unreachable_hub, "texts", r"tasks\.news: could not fetch .* work offline"),
    (too_few_texts, "samples", r'the label "Technology" has 0 training texts'),
    (colliding_labels, "prompts", r"for model tiny, label words begin with the same token: .*xqzw"),
    (unreachable_model, "tokenizers", r"models\.tiny: could not fetch .* work offline"),
    (alibi, "tokenizers", r"models\.tiny: the architecture bloom adds ALiBi"),
    (no_gpu, "flow", r'compute\.device: "cuda" needs a CUDA GPU'),
]

TARGETS = {
    "texts": "results/texts/news.parquet",
    "samples": "results/samples/news/0.parquet",
    "prompts": "results/prompts/tiny/news/0.parquet",
    "tokenizers": "results/tokenizers/tiny",
    "flow": "results/flow/tiny/news/0.parquet",
}


@pytest.mark.parametrize(
    ("break_it", "stage", "sentence"), CASES, ids=[break_it.__name__ for break_it, *_ in CASES]
)
def test_a_mistake_is_told_in_one_sentence_without_a_traceback(
    copy_checkout: Callable[[], Checkout], break_it: Break, stage: str, sentence: str
) -> None:
    checkout = copy_checkout()
    break_it(checkout)
    arguments = ["--dry-run"] if stage == "--dry-run" else ["--cores", "2", TARGETS[stage]]
    printed = checkout.snakemake(*arguments, ok=False)
    assert re.search(sentence, printed.replace("\n", " "))
    assert "Traceback" not in printed
    if stage != "--dry-run":
        assert not (checkout.folder / TARGETS[stage]).exists()
    if stage not in ("--dry-run", "flow"):
        assert not (checkout.folder / "results/models").exists()
    assert not list(checkout.folder.rglob("*.part"))


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
    checkout.snakemake("--cores", "2")
    rows = pl.read_parquet(checkout.folder / prompts).filter(demonstrations="fixed")
    skipped = int((lengths > median).sum())
    assert skipped > 0
    assert rows["skipped"].is_not_null().sum() == skipped
    accuracy = pl.read_csv(checkout.folder / "results/tables/accuracy.csv")
    assert accuracy.filter(task="news")["skipped"].unique().to_list() == [skipped]
    assert accuracy.filter(task="news")["examples"].unique().to_list() == [6 - skipped]
    table = (checkout.folder / "results/tables/accuracy.md").read_text(encoding="utf-8")
    assert f"| tiny | news | {6 - skipped} | {6 - skipped} | 1 | {skipped} |" in table
