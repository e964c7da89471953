"""Texts: labels in all their forms, and every bad file told in one sentence with its row."""

import gzip
import json
import os
import time
import zlib
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anchorflow.config.errors import InputError
from anchorflow.prepare.texts import MOST_BYTES, MOST_ROWS, read_texts
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.texts import TEXTS

COLUMNS = {"text": "text", "label": "label"}
LABELS = [" Negative", " Positive"]
TASK: dict[str, Any] = {"columns": COLUMNS, "labels": LABELS}
GOOD = "text,label\na good film,Positive\na dull film,Negative\n"


def read(folder: Path, train: str | bytes, task: dict[str, Any] = TASK, kind: str = "csv") -> Any:
    """Texts of a task whose training file holds ``train`` and whose test file is good."""
    files = {"train": folder / f"train.{kind}", "test": folder / "test.csv"}
    files["train"].write_bytes(train.encode() if isinstance(train, str) else train)
    good = pl.DataFrame(
        {
            task["columns"]["text"] if isinstance(task["columns"]["text"], str) else name: ["good"]
            for name in task["columns"]["text"]
        }
    ).with_columns(pl.lit(str(task.get("values", ["Negative"])[0])).alias(task["columns"]["label"]))
    good.write_csv(files["test"])
    return read_texts("reviews", task, files)


def parquet(folder: Path, columns: dict[str, pa.Array]) -> bytes:
    """Content of a Parquet file that does not say how pyarrow held it."""
    pq.write_table(pa.table(columns), folder / "source.parquet", store_schema=False)
    return (folder / "source.parquet").read_bytes()


def train_labels(frame: pl.DataFrame) -> list[int]:
    return frame.filter(pl.col("split") == "train")["label"].to_list()


def refused(
    folder: Path, train: str | bytes, task: dict[str, Any] = TASK, kind: str = "csv"
) -> str:
    """The sentence with which a training file is refused, without the file's folder."""
    with pytest.raises(InputError) as error:
        read(folder, train, task, kind)
    sentence = str(error.value)
    assert "\n" not in sentence
    assert sentence.startswith(f"{folder}/train.{kind}: ")
    return sentence.removeprefix(f"{folder}/")


def test_both_splits_are_read_with_rows_counted_from_0_in_each(tmp_path: Path) -> None:
    for split in ("train", "test"):
        (tmp_path / f"{split}.csv").write_text(GOOD, encoding="utf-8")
    files = {split: tmp_path / f"{split}.csv" for split in ("train", "test")}
    frame = read_texts("reviews", TASK, files)
    assert frame.schema == frame_schema(TEXTS)
    assert frame.rows() == [
        ("reviews", "train", 0, "a good film", 1),
        ("reviews", "train", 1, "a dull film", 0),
        ("reviews", "test", 0, "a good film", 1),
        ("reviews", "test", 1, "a dull film", 0),
    ]


def test_string_labels_are_the_label_words_without_blanks(tmp_path: Path) -> None:
    assert train_labels(read(tmp_path, GOOD)) == [1, 0]


def test_integer_labels_are_indices_of_the_label_words(tmp_path: Path) -> None:
    assert train_labels(read(tmp_path, "text,label\nx,1\ny,0\nz,1\n")) == [1, 0, 1]


def test_integer_label_words_do_not_override_the_values(tmp_path: Path) -> None:
    task = {"columns": COLUMNS, "labels": [" 1", " 0"], "values": [1, 0]}
    assert train_labels(read(tmp_path, "text,label\nx,1\ny,0\n", task)) == [0, 1]


@pytest.mark.parametrize(
    ("values", "labels", "expected"),
    [
        ([4, 2], "2,4,2", [1, 0, 1]),
        (["neg", "pos"], "pos,neg,pos", [1, 0, 1]),
        ([True, False], "true,false,false", [0, 1, 1]),
        ([-1, 1], "1,-1,1", [1, 0, 1]),
    ],
)
def test_values_say_what_the_label_column_holds_for_each_label_word(
    tmp_path: Path, values: list[Any], labels: str, expected: list[int]
) -> None:
    rows = "".join(f"text,{label}\n" for label in labels.split(","))
    assert (
        train_labels(read(tmp_path, "text,label\n" + rows, {**TASK, "values": values})) == expected
    )


def test_several_text_columns_are_joined_by_a_blank(tmp_path: Path) -> None:
    task = {"columns": {"text": ["title", "body"], "label": "class"}, "labels": LABELS}
    frame = read(tmp_path, "class,body,title\nPositive,it is long.,A title.\n", task)
    assert frame["text"].to_list() == ["A title. it is long.", "good good"]


def test_newlines_quotes_and_emoji_in_a_text_are_kept(tmp_path: Path) -> None:
    text = 'a "quoted"\nline, and 😀 e\u0301 {label}'
    quoted = text.replace('"', '""')
    frame = read(tmp_path, f'text,label\n"{quoted}",Positive\n')
    assert frame["text"][0] == text


@pytest.mark.parametrize("kind", ["jsonl", "ndjson"])
def test_json_lines_are_read_as_csv_is(tmp_path: Path, kind: str) -> None:
    rows = [{"text": "x", "label": "Positive"}, {"text": "y", "label": "Negative"}]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    assert train_labels(read(tmp_path, lines, kind=kind)) == [1, 0]


def test_parquet_is_read_as_csv_is(tmp_path: Path) -> None:
    source = tmp_path / "source.parquet"
    pl.DataFrame({"text": ["x", "y"], "label": [1, 0]}).write_parquet(source)
    assert train_labels(read(tmp_path, source.read_bytes(), kind="parquet")) == [1, 0]


def test_a_missing_text_column_is_told_with_those_there_are(tmp_path: Path) -> None:
    assert refused(tmp_path, "sentence,label\nx,Positive\n") == (
        'train.csv: there is no column "text" (it has sentence, label); '
        "set tasks.reviews.columns.text."
    )


def test_a_missing_label_column_is_told_with_those_there_are(tmp_path: Path) -> None:
    assert refused(tmp_path, "text,class\nx,Positive\n") == (
        'train.csv: there is no column "label" (it has text, class); '
        "set tasks.reviews.columns.label."
    )


def test_a_text_column_of_numbers_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path, "text,label\n1,Positive\n") == (
        'train.csv: column "text" holds Int64, not text; set tasks.reviews.columns.text.'
    )


def test_a_label_that_is_no_label_word_is_told_with_its_row(tmp_path: Path) -> None:
    assert refused(tmp_path, "text,label\nx,Positive\ny,Neutral\n") == (
        "train.csv: row 2 has the label 'Neutral', which is none of Negative, Positive; "
        "correct it, or set tasks.reviews.labels and tasks.reviews.values."
    )


def test_an_index_beyond_the_label_words_is_told_with_its_row(tmp_path: Path) -> None:
    sentence = refused(tmp_path, "text,label\nx,0\ny,1\nz,2\n")
    assert "row 3 has the label 2, which is none of 0, 1;" in sentence


def test_a_missing_label_is_told_with_its_row(tmp_path: Path) -> None:
    assert "row 2 has the label None" in refused(tmp_path, "text,label\nx,Positive\ny,\n")


def test_a_label_word_is_no_label_where_values_are_given(tmp_path: Path) -> None:
    sentence = refused(tmp_path, GOOD, {**TASK, "values": ["neg", "pos"]})
    assert "row 1 has the label 'Positive', which is none of neg, pos;" in sentence


@pytest.mark.parametrize("empty", ["", '""', '"  "', '" \t\n"'])
def test_an_empty_text_is_told_with_its_row_and_how_many_there_are(
    tmp_path: Path, empty: str
) -> None:
    rows = f"text,label\nx,Positive\n{empty},Negative\n{empty},Negative\n"
    assert refused(tmp_path, rows) == (
        "train.csv: row 2 has an empty text (2 in all); remove these rows or fill them in."
    )


def test_a_column_of_empty_texts_is_told_with_its_first_row(tmp_path: Path) -> None:
    lines = '{"text": null, "label": "Positive"}\n'
    assert "row 1 has an empty text (1 in all)" in refused(tmp_path, lines, kind="jsonl")


def test_one_empty_column_among_several_is_told_with_its_row(tmp_path: Path) -> None:
    task = {"columns": {"text": ["title", "body"], "label": "label"}, "labels": LABELS}
    rows = "title,body,label\nA,b,Positive\nA,,Positive\n"
    assert "row 2 has an empty text" in refused(tmp_path, rows, task)


def test_an_unknown_suffix_is_refused_with_those_that_can_be_read(tmp_path: Path) -> None:
    assert refused(tmp_path, GOOD, kind="xlsx") == (
        "train.xlsx: texts are read from .csv, .jsonl, .ndjson, .parquet files; convert it to one."
    )


def test_a_missing_file_is_told_in_one_sentence(tmp_path: Path) -> None:
    files = {split: tmp_path / f"{split}.csv" for split in ("train", "test")}
    with pytest.raises(InputError, match=r"train\.csv: no such file; correct the path"):
        read_texts("reviews", TASK, files)


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("csv", b""),
        ("jsonl", b""),
        ("parquet", b""),
        ("parquet", b"PAR1" + bytes(64) + b"PAR1"),
        ("parquet", b"text,label\nx,Positive\n"),
        ("csv", "text,label\ncafé,Positive\n".encode("latin-1")),
        ("csv", b"text,label\na, b and c,Positive\n"),
        ("jsonl", b'{"text": "a"\n'),
    ],
)
def test_a_damaged_file_is_refused_as_unreadable(tmp_path: Path, kind: str, content: bytes) -> None:
    sentence = refused(tmp_path, content, kind=kind)
    assert sentence.startswith(f"train.{kind}: not a readable {kind} file (")
    assert sentence.endswith("); replace it with an intact copy.")


def test_a_truncated_parquet_file_is_refused_as_unreadable(tmp_path: Path) -> None:
    source = tmp_path / "source.parquet"
    pl.DataFrame({"text": ["x"] * 50, "label": [1] * 50}).write_parquet(source)
    half = source.read_bytes()[: source.stat().st_size // 2]
    assert "not a readable parquet file" in refused(tmp_path, half, kind="parquet")


def test_a_label_column_of_truth_values_is_matched_with_words_of_that_name(tmp_path: Path) -> None:
    task = {"columns": COLUMNS, "labels": [" true", " False"]}
    files = {"train": tmp_path / "train.csv", "test": tmp_path / "train.csv"}
    files["train"].write_text("text,label\nx,true\ny,false\n", encoding="utf-8")
    assert train_labels(read_texts("reviews", task, files)) == [0, 1]


@pytest.mark.parametrize("labels", [[" 1", " 0"], [" 1", " 2"]])
def test_whole_numbers_that_could_be_words_or_indices_are_refused(
    tmp_path: Path, labels: list[str]
) -> None:
    words = ", ".join(word.strip() for word in labels)
    assert refused(tmp_path, "text,label\nx,1\ny,1\n", {**TASK, "labels": labels}) == (
        f"train.csv: the labels are integers, which could be {words} or their indices; "
        "set tasks.reviews.values."
    )


@pytest.mark.parametrize(
    "text",
    ["a\0b", "\u202eabc\u2069", "\u200b", "e\u0301\ufeff", "x" * 10**6, "=1+1", "{x} $y$ <b>|"],
)
def test_strange_texts_are_kept_as_they_are(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, f"text,label\n{text},Positive\n")["text"][0] == text
    line = json.dumps({"text": text, "label": "Positive"}) + "\n"
    assert read(tmp_path, line, kind="jsonl")["text"][0] == text


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_byte_order_mark_and_windows_line_ends_are_no_part_of_a_text(
    tmp_path: Path, end: str
) -> None:
    assert read(tmp_path, f"\ufefftext,label{end}x,Positive{end}")["text"][0] == "x"
    line = f'\ufeff{{"text": "x", "label": "Positive"}}{end}'
    assert read(tmp_path, line, kind="jsonl")["text"][0] == "x"


@pytest.mark.parametrize("half", [r"\ud800", r"\uDC00", r"\ud800\ud800", r"\ud83d\\\ude00"])
def test_half_a_surrogate_pair_is_refused_which_polars_would_turn_into_nul(
    tmp_path: Path, half: str
) -> None:
    lines = f'{{"text": "a", "label": "Positive"}}\n{{"text": "b{half}c", "label": "Positive"}}\n'
    assert refused(tmp_path, lines, kind="jsonl") == (
        "train.jsonl: line 2 has half of a surrogate pair (as \\ud800), which is not a character; "
        "remove it."
    )


def test_whole_surrogate_pairs_and_backslashes_are_read(tmp_path: Path) -> None:
    line = r'{"text": "\ud83d\ude00 \\ud800", "label": "Positive"}'
    assert read(tmp_path, line, kind="jsonl")["text"][0] == "😀 \\ud800"


def test_a_column_name_that_stands_twice_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path, "text,text,label\na,b,Positive\n") == (
        'train.csv: several columns are called "text"; rename one, or set '
        "tasks.reviews.columns.text."
    )


@pytest.mark.parametrize("name", ["a*.csv", "[x].csv", "{x}.csv", "~", "s3:", "a 'b\" $(touch c)"])
def test_a_path_names_one_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path(name) if name.endswith(".csv") else Path(name) / "x.csv"
    path.parent.mkdir(exist_ok=True)
    for file in (path, Path("another.csv"), Path("x.csv")):
        file.write_text(f"text,label\n{file == path},Positive\n", encoding="utf-8")
    path.write_text("text,label\nthis one,Positive\n", encoding="utf-8")
    assert read_texts("reviews", TASK, {"train": path, "test": path})["text"].to_list() == [
        "this one",
        "this one",
    ]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_what_is_no_file_is_not_waited_for(tmp_path: Path, kind: str) -> None:
    for make in (os.mkfifo, os.mkdir):
        path = tmp_path / f"{make.__name__}.{kind}"
        make(path)
        with pytest.raises(InputError, match="no such file"):
            read_texts("reviews", TASK, {"train": path, "test": path})


KINDS: list[tuple[pa.Array, str]] = [
    (pa.array([["a"]]), "List(String)"),
    (pa.array([{"a": 1}]), "Struct({'a': Int64})"),
    (pa.array([b"a"]), "Binary"),
    (pa.array([Decimal("1.5")]), "Decimal(precision=2, scale=1)"),
    (pa.array([datetime(2020, 1, 1)]), "Datetime(time_unit='us', time_zone=None)"),
]


@pytest.mark.parametrize(("texts", "kind"), KINDS)
def test_a_parquet_column_that_is_no_text_is_told_with_its_kind(
    tmp_path: Path, texts: pa.Array, kind: str
) -> None:
    content = parquet(tmp_path, {"text": texts, "label": pa.array([0])})
    assert refused(tmp_path, content, kind="parquet") == (
        f'train.parquet: column "text" holds {kind}, not text; set tasks.reviews.columns.text.'
    )


@pytest.mark.parametrize(("labels", "kind"), KINDS)
def test_a_parquet_column_that_is_no_label_is_told(
    tmp_path: Path, labels: pa.Array, kind: str
) -> None:
    content = parquet(tmp_path, {"text": pa.array(["x"]), "label": labels})
    sentence = refused(tmp_path, content, kind="parquet")
    told = f'column "label" holds {kind}, not labels' if kind[0] in "LSB" else "row 1 has the label"
    assert sentence.startswith(f"train.parquet: {told}")


@pytest.mark.parametrize(
    "kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
def test_text_of_every_parquet_kind_is_read(tmp_path: Path, kind: pa.DataType) -> None:
    words = pa.array(["x", "y", "x"]).cast(kind)
    content = parquet(tmp_path, {"text": words, "label": pa.array([0, 1, 1])})
    frame = read(tmp_path, content, kind="parquet")
    assert frame["text"].to_list()[:3] == ["x", "y", "x"]
    assert train_labels(frame) == [0, 1, 1]


def test_columns_that_are_not_asked_for_may_hold_anything(tmp_path: Path) -> None:
    columns = {"text": pa.array(["x"]), "label": pa.array([0]), "more": pa.array([[b"\xff"]])}
    assert read(tmp_path, parquet(tmp_path, columns), kind="parquet")["text"][0] == "x"


@pytest.mark.parametrize("compress", [gzip.compress, zlib.compress])
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_compressed_file_is_refused_which_could_hold_any_amount(
    tmp_path: Path, compress: Callable[[bytes], bytes], kind: str
) -> None:
    sentence = refused(tmp_path, compress(GOOD.encode()), kind=kind)
    assert sentence == f"train.{kind}: the file is compressed; unpack it."


def test_a_file_beyond_the_limit_is_refused_unread(tmp_path: Path) -> None:
    for kind in ("csv", "jsonl", "parquet"):
        path = tmp_path / f"large.{kind}"
        with open(path, "wb") as file:
            file.truncate(MOST_BYTES + 1)
        with pytest.raises(InputError, match=f"{MOST_BYTES + 1} bytes are more than the"):
            read_texts("reviews", TASK, {"train": path, "test": path})


def test_a_small_parquet_file_that_expands_to_gigabytes_is_refused(tmp_path: Path) -> None:
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 5000, pa.int32()), ["x" * 10**6])
    content = parquet(tmp_path, {"text": text, "label": pa.array([1] * 5000)})
    assert len(content) < 10**5
    assert "5000000000 bytes of text are more than the 2147483648 that are read" in refused(
        tmp_path, content, kind="parquet"
    )


def test_a_small_parquet_file_of_endless_rows_is_refused(tmp_path: Path) -> None:
    zeros = pa.array(np.zeros(MOST_ROWS + 1, np.int8))
    text = pa.DictionaryArray.from_arrays(zeros, ["x"])
    content = parquet(tmp_path, {"text": text, "label": zeros})
    assert len(content) < 10**5
    assert "10000001 rows are more than the 10000000 that are read" in refused(
        tmp_path, content, kind="parquet"
    )


def test_a_flipped_byte_gives_texts_or_one_sentence(tmp_path: Path) -> None:
    columns = {"text": pa.array(["x é", "y", "z"] * 9), "label": pa.array([0, 1, 1] * 9)}
    content = parquet(tmp_path, columns)
    random = np.random.default_rng(0)
    ends = set()
    for place in random.integers(len(content), size=300):
        damaged = bytearray(content)
        damaged[place] ^= random.integers(1, 256)
        try:
            assert len(read(tmp_path, bytes(damaged), kind="parquet")) > 0
            ends.add("read")
        except InputError as error:
            assert str(error).endswith(".")
            ends.add("refused")
    assert ends == {"read", "refused"}


def test_a_hundred_thousand_rows_are_read_in_seconds(tmp_path: Path) -> None:
    rows = "".join(f"text number {row},{LABELS[row % 2].strip()}\n" for row in range(100_000))
    begun = time.monotonic()
    labels = train_labels(read(tmp_path, "text,label\n" + rows))
    assert time.monotonic() - begun < 30
    assert labels == [0, 1] * 50_000


def test_a_file_with_only_a_header_holds_no_texts(tmp_path: Path) -> None:
    assert refused(tmp_path, "text,label\n") == (
        "train.csv: the file holds no rows; texts are needed."
    )


def test_an_unreachable_hub_is_told_with_a_way_to_work_offline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unreachable(*_: Any, **__: Any) -> str:
        raise OSError("no network")

    monkeypatch.setattr("huggingface_hub.hf_hub_download", unreachable)
    files = {"train": "train.parquet", "test": "test.parquet"}
    with pytest.raises(InputError) as error:
        download_texts("reviews", {"repository": "a/b", "revision": "0" * 40, **files})
    assert str(error.value) == (
        "tasks.reviews: could not fetch train.parquet of the data set a/b at revision "
        "000000000000 from the Hugging Face Hub (OSError); check the names, or work offline "
        'with a copy of the file and "source: local".'
    )


def test_a_data_set_is_fetched_at_its_pinned_revision(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = []

    def fetch(repository: str, file: str, repo_type: str, revision: str) -> str:
        asked.append((repository, file, repo_type, revision))
        return str(tmp_path / file)

    monkeypatch.setattr("huggingface_hub.hf_hub_download", fetch)
    task = {"repository": "a/b", "revision": "1" * 40, "train": "t.parquet", "test": "v.parquet"}
    files = download_texts("reviews", task)
    assert files == {"train": tmp_path / "t.parquet", "test": tmp_path / "v.parquet"}
    assert asked == [(("a/b"), file, "dataset", "1" * 40) for file in ("t.parquet", "v.parquet")]
