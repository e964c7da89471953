"""Data sets of the Hub, loaded from a server on this machine, and from the cache after that."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkout import ROOT
from hub_server import hub

# one process reads them all, since each starts a server
pytestmark = pytest.mark.xdist_group("hub")

OLD, NEW = "a" * 40, "b" * 40  # commits
SPLITS = ("train", "validation_matched", "test")

CARD = """---
configs:
{configs}
dataset_info:
{infos}
---
# A data set
"""
INFO = """- config_name: {subset}
  features:
  - {{name: {text}, dtype: string}}
  - name: label
    dtype: {label}
"""
LABELS = {
    "parquet": ("sentence", "{class_label: {names: {'0': negative, '1': positive}}}"),
    "csv": ("text", "string"),
}


def card(*subsets: str, kind: str) -> bytes:
    configs = "".join(
        f"- config_name: {subset}\n  data_files:\n"
        + "".join(f"  - {{split: {s}, path: {subset}/{s}.{kind}}}\n" for s in SPLITS)
        for subset in subsets
    )
    text, label = LABELS[kind]
    infos = "".join(INFO.format(subset=subset, text=text, label=label) for subset in subsets)
    return CARD.format(configs=configs, infos=infos).encode()


def parquet(words: str) -> bytes:
    """Four sentences, the labels of which are 0, 1, 1, 0."""
    content = io.BytesIO()
    table = pa.table({"sentence": [f"{words} {row}" for row in range(4)], "label": [0, 1, 1, 0]})
    pq.write_table(table, content)
    return content.getvalue()


def of_parquet(commit: str) -> dict[str, bytes]:
    files = {"README.md": card("classes", "others", kind="parquet")}
    for subset in ("classes", "others"):
        for split in SPLITS:
            files[f"{subset}/{split}.parquet"] = parquet(f"{subset} {split} {commit[0]}")
    return files


OF_CSV = {"README.md": card("plain", "more", kind="csv")} | {
    f"{subset}/{split}.csv": b"text,label\nNA,Negative\nNone,Positive\n007,Positive\n"
    for subset in ("plain", "more")
    for split in SPLITS
}
BY_CODE = {"README.md": b"", "code.py": b"open('hacked', 'w')\n"}
CONVERTED = {f"default/{split}/0000.parquet": parquet(split) for split in ("train", "test")}
PICKLED = {"train.pkl": b"cos\nsystem\n(S'touch hacked'\ntR."}

REPOSITORIES = {
    "org/set": {OLD: of_parquet(OLD), NEW: of_parquet(NEW)},
    "org/unread": {OLD: of_parquet(OLD)},
    "org/plain": {OLD: OF_CSV},
    "org/code": {OLD: BY_CODE, NEW: CONVERTED},
    "org/pickled": {OLD: PICKLED},
    "org/cut": {
        OLD: {f"{s}.csv": b"text,label\n" + b"%s,Positive\n" % s.encode() * 9 for s in SPLITS[::2]}
    },
}
BRANCHES = {"main": NEW, "refs/convert/parquet": NEW}

TASK = {
    "repository": "org/set",
    "subset": "classes",
    "revision": OLD,
    "train": "train",
    "test": "validation_matched",
    "columns": {"text": "sentence", "label": "label"},
    "labels": [" Negative", " Positive"],
}
PLAIN = {
    **TASK,
    "repository": "org/plain",
    "subset": "plain",
    "columns": {"text": "text", "label": "label"},
}
TASKS: dict[str, dict[str, Any]] = {
    "classes": TASK,
    "others": {**TASK, "subset": "others"},
    "slices": {**TASK, "train": "train[1:3]", "test": "train[:25%]+test[-1:]"},
    "new": {**TASK, "revision": NEW},
    "branch": {**TASK, "repository": "org/code", "subset": "", "revision": "refs/convert/parquet"}
    | {"test": "test"},
    "plain": PLAIN,
    "repository": {**TASK, "repository": "org/nothing"},
    "subset": {**TASK, "subset": "mnli"},
    "no subset": {**TASK, "subset": ""},
    "split": {**TASK, "repository": "org/unread", "test": "validation"},
    "notation": {**TASK, "train": "train[:"},
    "beyond": {**TASK, "train": "train[9:12]"},
    "revision": {**TASK, "revision": "c" * 40},
    "code": {**TASK, "repository": "org/code"},
    "pickled": {**TASK, "repository": "org/pickled", "subset": ""},
    "column": {**TASK, "columns": {"text": "text", "label": "label"}},
    "columns": {**TASK, "columns": {"text": "text", "label": "class"}},
    "order": {**TASK, "labels": [" Positive", " Negative"]},
    "number": {**TASK, "labels": [" Negative", " Neutral", " Positive"]},
    "words": {**TASK, "labels": [" Good", " Bad"], "values": ["positive", 0]},
    "cut": {**PLAIN, "repository": "org/cut", "subset": "", "test": "test"},
}

READ = """
import json, sys, time
time.sleep = lambda seconds: None  # between attempts to download
from anchorflow.config.errors import InputError
from anchorflow.prepare.texts import read_hub_texts
for name, task in json.load(sys.stdin).items():
    try:
        frame, commit = read_hub_texts(name, {k: v for k, v in task.items() if v})
        told = {"rows": frame.drop("task").rows(), "commit": commit}
    except InputError as error:
        told = {"error": str(error)}
    print(json.dumps([name, told]), flush=True)
"""


class Told(NamedTuple):
    """What became of each task with the Hub, after that without it, and what was asked of it."""

    online: Mapping[str, dict[str, Any]]
    offline: Mapping[str, dict[str, Any]]
    read_only: Mapping[str, dict[str, Any]]
    asked: list[str]
    folder: Path


def read(tasks: Mapping[str, Any], folder: Path, code: str = READ, **environment: str) -> Any:
    """What reading each task in a process of its own returns."""
    places = {"PYTHONPATH": str(ROOT / "workflow"), "HF_HOME": str(folder / "home")}
    finished = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(tasks),
        capture_output=True,
        text=True,
        cwd=folder / "work",
        env={**os.environ, **places, **environment},
        timeout=120,
    )
    assert finished.returncode == 0, finished.stderr
    assert "Traceback" not in finished.stderr
    return dict(json.loads(line) for line in finished.stdout.splitlines())


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    folder = tmp_path_factory.mktemp("hub")
    (folder / "work/org/set").mkdir(parents=True)  # of the repository's name
    (folder / "work/org/set/train.csv").write_text("sentence,label\nlocal,0\n", encoding="utf-8")
    with hub(REPOSITORIES, BRANCHES) as server:
        server.cut_off.add("test.csv")
        address = {"HF_ENDPOINT": server.address, "HF_HUB_OFFLINE": "0"}
        online = read(TASKS, folder, **address)
        asked = list(server.asked)
        offline = read(TASKS, folder, **{**address, "HF_HUB_OFFLINE": "1"})
        server.cut_off.clear()
        online |= read({"intact": TASKS["cut"]}, folder, **address)
        before = sorted((folder / "home/datasets").rglob("*"))
        unwritable = READ.replace("import json", "import os, json").replace(
            "for name", "os.access = lambda path, mode: False\nfor name"
        )
        some = {name: TASKS[name] for name in ("classes", "new")}
        read_only = read(some, folder, unwritable, **{**address, "HF_HUB_OFFLINE": "1"})
        assert sorted((folder / "home/datasets").rglob("*")) == before
    yield Told(online, offline, read_only, asked, folder)


@pytest.mark.parametrize(
    ("task", "split", "expected"),
    [
        ("classes", "train", [(f"classes train a {n}", n in (1, 2)) for n in range(4)]),
        ("classes", "test", [(f"classes validation_matched a {n}", n in (1, 2)) for n in range(4)]),
        ("others", "train", [(f"others train a {n}", n in (1, 2)) for n in range(4)]),
        ("new", "train", [(f"classes train b {n}", n in (1, 2)) for n in range(4)]),  # a commit
        ("slices", "train", [("classes train a 1", 1), ("classes train a 2", 1)]),
        ("slices", "test", [("classes train a 0", 0), ("classes test a 3", 0)]),
        ("branch", "train", [(f"train {n}", n in (1, 2)) for n in range(4)]),
        ("plain", "train", [("NA", 0), ("None", 1), ("007", 1)]),  # missing for pandas
        ("words", "train", [(f"classes train a {n}", n not in (1, 2)) for n in range(4)]),  # values
        ("intact", "test", [("test", 1)] * 9),  # cut off at first
    ],
)
def test_splits_are_read_at_their_commit_with_rows_from_0(
    told: Told, task: str, split: str, expected: list[tuple[str, int]]
) -> None:
    assert "rows" in told.online[task], told.online[task]
    found = [row[1:] for row in told.online[task]["rows"] if row[0] == split]
    assert found == [[row, *of_row] for row, of_row in enumerate(expected)]
    assert told.online[task]["commit"] == (NEW if task in ("new", "branch") else OLD)


@pytest.mark.parametrize(
    ("task", "sentence"),
    [
        ("repository", "tasks.repository: could not fetch the data set org/nothing, subset"),
        ("repository", "(Dataset 'org/nothing' doesn't exist on the Hub or cannot be accessed);"),
        ("subset", "(BuilderConfig 'mnli' not found. Available: ['classes', 'others']); check"),
        ("no subset", "available configs: ['classes', 'others']"),
        ("split", "tasks.split.test: 'validation' is not a split of org/unread, which has train"),
        ("notation", "tasks.notation.train: 'train[:' is not a split of org/set, which has"),
        ("beyond", '(Instruction "train[9:12]" corresponds to no data!); check'),
        ("revision", f"(Revision '{'c' * 40}' doesn't exist for dataset 'org/set' on the Hub);"),
        ("code", "(Dataset scripts are no longer supported, but found code.py); check"),
        ("pickled", "tasks.pickled: could not fetch the data set org/pickled at revision aaaaaaa"),
        ("column", 'tasks.column.train: org/set (classes), train: there is no column "text" (it'),
        ("columns", 'there is no column "text" (it has sentence, label); set tasks.columns.'),
        ("order", 'classes are negative, positive, in this order, so "negative" would get'),
        ("number", "classes are negative, positive, 2 for 3 label words; give one word per class"),
        ("cut", "peer closed connection without sending complete message body"),
    ],
)
def test_what_can_not_be_loaded_is_told_in_one_sentence(
    told: Told, task: str, sentence: str
) -> None:
    error = told.online[task]["error"]
    assert sentence in error
    assert error.endswith(".")
    assert "\n" not in error


def test_a_wrong_split_is_told_before_anything_is_downloaded(told: Told) -> None:
    about = [line for line in told.asked if "org/unread" in line]
    assert any("README.md" in line for line in about)
    assert not any(line.startswith("GET") and line.endswith(".parquet") for line in about)


def test_what_was_loaded_is_read_without_the_hub(told: Told) -> None:
    for task in ("classes", "others", "slices", "new", "plain", "words"):
        assert told.offline[task] == told.online[task], task


def test_without_the_hub_no_other_revision_is_taken(told: Told) -> None:
    assert "(Couldn't reach 'org/set' on the Hub" in told.offline["revision"]["error"]
    assert "work offline with a copy of the files" in told.offline["revision"]["error"]
    assert "offline mode is enabled" in told.offline["branch"]["error"]


def test_a_cache_that_can_not_be_written_is_read(told: Told) -> None:
    assert told.read_only == {name: told.online[name] for name in ("classes", "new")}


def test_no_code_of_a_data_set_is_run_and_nothing_is_left_in_the_working_directory(
    told: Told,
) -> None:
    assert not list(told.folder.rglob("hacked"))
    assert [path.name for path in (told.folder / "work").rglob("*")] == ["org", "set", "train.csv"]
