"""Texts: labels in all their forms, and every bad file told in one sentence with its row."""

import bz2
import gzip
import json
import lzma
import os
import time
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import datasets
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anchorflow.config.errors import InputError
from anchorflow.prepare.texts import drawn_of_labels, read_texts
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


@pytest.mark.parametrize(
    ("words", "values", "held", "expected"),
    [
        (LABELS, None, "Positive,Negative", [1, 0]),  # without blanks
        (LABELS, None, "1,0,1", [1, 0, 1]),
        ([" 1", " 0"], [1, 0], "1,0", [0, 1]),  # integer words do not override values
        (LABELS, [4, 2], "2,4,2", [1, 0, 1]),
        (LABELS, ["neg", "pos"], "pos,neg,pos", [1, 0, 1]),
        (LABELS, [True, False], "true,false,false", [0, 1, 1]),
        (LABELS, [-1, 1], "1,-1,1", [1, 0, 1]),
    ],
)
def test_the_label_column_holds_label_words_or_indices_or_values(
    tmp_path: Path, words: list[str], values: list[Any] | None, held: str, expected: list[int]
) -> None:
    task = {"columns": COLUMNS, "labels": words} | ({} if values is None else {"values": values})
    rows = "".join(f"text,{label}\n" for label in held.split(","))
    assert train_labels(read(tmp_path, "text,label\n" + rows, task)) == expected


def test_several_text_columns_are_joined_by_a_blank(tmp_path: Path) -> None:
    task = {"columns": {"text": ["title", "body"], "label": "class"}, "labels": LABELS}
    frame = read(tmp_path, "class,body,title\nPositive,it is long.,A title.\n", task)
    assert frame["text"].to_list() == ["A title. it is long.", "good good"]


NAMED = {**TASK, "values": ["neg", "pos"]}
WITH_NONE = {**TASK, "values": ["None", "Positive"]}
OF_TWO = {"columns": {"text": ["title", "body"], "label": "label"}, "labels": LABELS}
HEAD = "text,label\n"
REFUSED = [
    (TASK, "sentence,label\nx,Positive\n", '"text" (it has sentence, label); set tasks.reviews.c'),
    (TASK, "text,class\nx,Positive\n", '"label" (it has text, class); set tasks.reviews.columns.'),
    (TASK, "text,text,label\na,b,Positive\n", 'several columns are called "text"; rename one, or'),
    (TASK, "text,label,b\n1,Positive,x\n", 'column "text" holds numbers alone, and there are oth'),
    (TASK, HEAD, "the file holds no rows; texts are needed."),
    (TASK, f"{HEAD}x,Positive\ny,Neutral\n", "row 2 has the label 'Neutral', which is none of N"),
    (TASK, f"{HEAD}y,Neutral\n", "tasks.reviews.values (the column holds Negative, Neutral)."),
    (TASK, f"{HEAD}x,0\ny,1\nz,2\n", "row 3 has the label '2', which is none of 0, 1;"),
    (TASK, f"{HEAD}x,Positive\ny,\n", "row 2 has the label None"),
    (WITH_NONE, f"{HEAD}x,None\ny,\n", "row 2 has the label None"),
    (NAMED, GOOD, "row 1 has the label 'Positive', which is none of neg, pos;"),
    (TASK, f"{HEAD}x,Positive\ny\n", "(line 3 has 1 fields, the header 2)"),
    (OF_TWO, "title,body,label\nA,b,Positive\nA,,Positive\n", "row 2 has an empty text"),
] + [
    (TASK, f"{HEAD}x,Positive\n{empty},Negative\n{empty},Negative\n", "row 2 has an empty text (2")
    for empty in ("", '""', '"  "', '" \t\n"')
]


@pytest.mark.parametrize(("task", "rows", "sentence"), REFUSED)
def test_what_is_wrong_in_a_file_is_told_with_its_row_or_key(
    tmp_path: Path, task: dict[str, Any], rows: str, sentence: str
) -> None:
    assert sentence in refused(tmp_path, rows, task)


@pytest.mark.parametrize(
    ("kind", "content", "sentence"),
    [
        ("jsonl", '{"a": "x"}\n{"b": 1}\n', 'no column "text" (it has a, b); set tasks.reviews.c'),
        ("jsonl", '{"text": null, "label": "Positive"}\n', "row 1 has an empty text (1 in all)"),
        ("xlsx", GOOD, ".parquet, .arrow files; export the sheet as CSV in UTF-8."),
        ("pkl", GOOD, ".parquet, .arrow files; convert it to one."),
    ],
)
def test_other_kinds_of_files_are_refused_alike(
    tmp_path: Path, kind: str, content: str, sentence: str
) -> None:
    assert sentence in refused(tmp_path, content, kind=kind)


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
        ("jsonl", b'{"text": "a"\n'),
    ],
)
def test_a_damaged_file_is_refused_as_unreadable(tmp_path: Path, kind: str, content: bytes) -> None:
    sentence = refused(tmp_path, content, kind=kind)
    assert sentence.startswith(f"train.{kind}: not a readable {kind} file (")
    assert sentence.endswith("replace it with an intact copy.")


def test_a_truncated_parquet_file_is_refused_as_unreadable(tmp_path: Path) -> None:
    source = tmp_path / "source.parquet"
    pl.DataFrame({"text": ["x"] * 50, "label": [1] * 50}).write_parquet(source)
    half = source.read_bytes()[: source.stat().st_size // 2]
    assert "not a readable parquet file" in refused(tmp_path, half, kind="parquet")


STRANGE = [
    *("a\0b", "\u202eabc\u2069", "\u200bb", "e\u0301\ufeff", "x" * 10**6, "=1+1", "{x} $y$ <b>|"),
    *("007", "1e3", "NA", "😀 \\ud800", 'a "quoted"\nline, and 😀 e\u0301 {label}', '"', "a\r\nb"),
]
SEEN = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=",")).filter(
    lambda text: any(character.isalnum() for character in text)
)


def as_csv(text: str) -> str:
    quoted = text.replace('"', '""')
    return f'text,label\n"{quoted}",Positive\n'


def as_json_lines(text: str) -> str:
    return json.dumps({"text": text, "label": "Positive"}) + "\n"


@settings(deadline=None)
@given(text=SEEN)
def test_any_text_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    folder = tmp_path_factory.mktemp("texts")
    assert read(folder, as_csv(text))["text"][0] == text
    assert read(folder, as_json_lines(text), kind="jsonl")["text"][0] == text


@pytest.mark.parametrize("text", STRANGE)
def test_strange_texts_are_kept_as_they_are(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, as_csv(text))["text"][0] == text
    assert read(tmp_path, as_json_lines(text), kind="jsonl")["text"][0] == text


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_byte_order_mark_and_windows_line_ends_are_no_part_of_a_text(
    tmp_path: Path, end: str
) -> None:
    assert read(tmp_path, f"\ufefftext,label{end}x,Positive{end}")["text"][0] == "x"
    line = f'\ufeff{{"text": "x", "label": "Positive"}}{end}'
    assert read(tmp_path, line, kind="jsonl")["text"][0] == "x"


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (r'{"text": "\ud800", "label": 1}', "surrogates not allowed"),
        ('{"text": "x", "label": 1}\n{"text": 5, "label": 0}', "several kinds: str, int"),
        ('{"text": {"a": 1}, "label": 1}\n{"text": "x", "label": 0}', "several kinds: dict, str"),
        ('{"text": "x", "label": 1}\n{"text": "y", "label": true}', "several kinds: int, bool"),
        ('{"text": "x", "label": 1, "text": "y"}', "repeats a key among text, label, text"),
        ('{"text": "x", "label": 1}\n5', "row 2 is not an object"),
    ],
)
def test_json_that_is_no_table_of_texts_is_refused(tmp_path: Path, rows: str, reason: str) -> None:
    for content in (rows, "[" + rows.replace("\n", ",\n") + "]"):
        told = refused(tmp_path, content, kind="json")
        assert told.startswith("train.json: not a readable json file (")
        assert told.endswith(f"{reason}); correct it, or replace it with an intact copy.")


@pytest.mark.parametrize("kind", [pa.string(), pa.dictionary(pa.int8(), pa.string())])
def test_text_that_is_not_utf_8_is_refused(tmp_path: Path, kind: pa.DataType) -> None:
    texts = pa.array([b"x", b"\xff"]).view(pa.string())
    if kind != pa.string():
        texts = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), texts)
    table = pa.table({"text": texts, "label": [0, 1]})
    pq.write_table(table, tmp_path / "source.parquet")
    with pa.ipc.new_file(tmp_path / "source.arrow", table.schema) as writer:
        writer.write_table(table)
    for suffix in ("parquet", "arrow"):
        content = (tmp_path / f"source.{suffix}").read_bytes()
        assert "Invalid UTF8" in refused(tmp_path, content, kind=suffix)


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


@pytest.mark.parametrize(("held", "kind"), KINDS)
def test_a_parquet_column_that_is_no_text_or_no_label_is_told_with_its_kind(
    tmp_path: Path, held: pa.Array, kind: str
) -> None:
    content = parquet(tmp_path, {"text": held, "label": pa.array([0])})
    assert refused(tmp_path, content, kind="parquet") == (
        f'train.parquet: column "text" holds {kind}, not text; set tasks.reviews.columns.text.'
    )
    content = parquet(tmp_path, {"text": pa.array(["x"]), "label": held})
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


def test_a_hundred_thousand_rows_are_read_in_seconds(tmp_path: Path) -> None:
    rows = "".join(f"text number {row},{LABELS[row % 2].strip()}\n" for row in range(100_000))
    begun = time.monotonic()
    labels = train_labels(read(tmp_path, "text,label\n" + rows))
    assert time.monotonic() - begun < 30
    assert labels == [0, 1] * 50_000


@pytest.mark.parametrize("row", ["a, b and c,Positive", '"a" b,Positive', '"a,Positive'])
def test_commas_and_quotes_that_are_not_quoted_are_told(tmp_path: Path, row: str) -> None:
    told = refused(tmp_path, f"text,label\n{row}\n")
    assert told.startswith("train.csv: not a readable csv file (")
    assert "); quote texts with commas or line breaks, or replace" in told


@pytest.mark.parametrize("word", ["NA", "None", "null", "nan", "N/A", "-"])
def test_what_pandas_takes_for_missing_is_a_text_and_a_label(tmp_path: Path, word: str) -> None:
    task = {**TASK, "values": [word, "Positive"]}
    frame = read(tmp_path, f"text,label\n{word},{word}\nx,Positive\n", task)
    assert frame.filter(split="train").select("text", "label").rows() == [(word, 0), ("x", 1)]


def test_a_whole_file_has_one_type_however_long_it_is(tmp_path: Path) -> None:
    dates, words = ["2020-01-01"] * 70_000, ["x" * 2000] * 6000  # the library takes 10 MiB at once
    labels = [0] * len(words) + [1] * len(dates)
    lines = "".join(
        json.dumps({"text": text, "label": label}) + "\n"
        for text, label in zip([*words, *dates], labels, strict=True)
    )
    frame = read(tmp_path, lines, kind="jsonl")
    assert frame["text"].to_list()[:-1] == words + dates


PACK: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda content: pa.compress(content, "zstd", asbytes=True),
}


@pytest.mark.parametrize("packing", PACK)
def test_a_compressed_file_is_read_as_what_is_in_it_unless_it_is_cut_off(
    tmp_path: Path, packing: str
) -> None:
    lines = "".join(
        json.dumps({"text": text, "label": label}) + "\n" for text, label in [("x", 1), ("y", 0)]
    )
    for kind, content in (("csv", "text,label\nx,1\ny,0\n"), ("jsonl", lines)):
        packed = PACK[packing](content.encode())
        frame = read(tmp_path, packed, kind=f"{kind}.{packing}")
        assert frame["text"].to_list()[:2] == ["x", "y"]
        assert train_labels(frame) == [1, 0]
    rows = "".join(f"a text {row * 7919 % 1000},Positive\n" for row in range(2000))
    packed = PACK[packing](f"text,label\n{rows}".encode())
    told = refused(tmp_path, packed[: len(packed) // 2], kind=f"csv.{packing}")
    assert told.startswith(f"train.csv.{packing}: not a readable csv file (")


def test_tabs_separate_the_columns_of_a_tsv_file(tmp_path: Path) -> None:
    frame = read(tmp_path, "text\tlabel\na, b\tPositive\n", kind="tsv")
    assert frame["text"][0] == "a, b"


@pytest.mark.parametrize("kind", ["json", "jsonl", "ndjson"])
def test_json_is_a_list_of_objects_or_one_in_each_line(tmp_path: Path, kind: str) -> None:
    rows = [{"text": "x\u2028y", "label": "Positive"}, {"text": "y", "label": "Negative"}]
    lines = "\n\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    for content in (json.dumps(rows), json.dumps(rows, indent=2), lines):
        frame = read(tmp_path, f" \n{content}\n", kind=kind)
        assert train_labels(frame) == [1, 0]
        assert frame["text"][0] == "x\u2028y"


def test_parquet_and_arrow_are_read_as_csv_is(tmp_path: Path) -> None:
    table = pa.table({"text": ["x", "y"], "label": [1, 0]})
    for make in (pa.ipc.new_file, pa.ipc.new_stream):
        with make(tmp_path / "source.arrow", table.schema) as writer:
            writer.write_table(table)
        content = (tmp_path / "source.arrow").read_bytes()
        assert train_labels(read(tmp_path, content, kind="arrow")) == [1, 0]
    pl.DataFrame(table).write_parquet(tmp_path / "source.parquet")
    content = (tmp_path / "source.parquet").read_bytes()
    assert train_labels(read(tmp_path, content, kind="parquet")) == [1, 0]


def test_files_of_one_split_follow_each_other_with_one_count_of_rows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(GOOD, encoding="utf-8")
    lines = '{"text": "x", "label": 1}\n{"text": "y", "label": 0}\n'
    (tmp_path / "b.jsonl").write_text(lines, encoding="utf-8")
    parts = [tmp_path / "a.csv", tmp_path / "b.jsonl"]
    frame = read_texts("reviews", TASK, {"train": parts, "test": tmp_path / "a.csv"})
    assert frame.filter(split="train").select("row", "text", "label").rows() == [
        (0, "a good film", 1),
        (1, "a dull film", 0),
        (2, "x", 1),
        (3, "y", 0),
    ]


@pytest.mark.parametrize("kind", ["pkl", "pickle", "py", "zip", "tar"])
def test_what_could_hold_code_or_files_is_not_opened(tmp_path: Path, kind: str) -> None:
    harm = f"cos\nsystem\n(S'touch {tmp_path}/hacked'\ntR."
    assert "texts are read from .csv," in refused(tmp_path, harm, kind=kind)
    assert not (tmp_path / "hacked").exists()


def of_classes(folder: Path, names: list[str], labels: list[int]) -> bytes:
    """A Parquet file that the library wrote, in which the label column's classes have names."""
    label = datasets.ClassLabel(names=names)
    features = datasets.Features({"text": datasets.Value("string"), "label": label})
    rows = {"text": ["x"] * len(labels), "label": labels}
    datasets.Dataset.from_dict(rows, features=features).to_parquet(folder / "classes.parquet")
    return (folder / "classes.parquet").read_bytes()


def test_classes_in_the_order_of_the_label_words_are_their_indices(tmp_path: Path) -> None:
    for names in (["neg", "pos"], ["NEGATIVE", "positive"]):
        content = of_classes(tmp_path, names, [1, 0, 1])
        assert train_labels(read(tmp_path, content, kind="parquet")) == [1, 0, 1]


CLASSES = ["positive", "negative"]
NO_CLASS = "in tasks.reviews.values is none of them or repeats one"


@pytest.mark.parametrize(
    ("names", "labels", "values", "sentence"),
    [
        (CLASSES, [0, 1], None, 'in this order, so "positive" would get the label word "Negative"'),
        ([*CLASSES[::-1], "other"], [0, 1], None, "3 for 2 label words; give one word per class"),
        (CLASSES[::-1], [0, -1], None, "row 2 has the label -1, which is none of 0, 1;"),
        (CLASSES, [0, 1], ["neutral", "positive"], NO_CLASS),
        (CLASSES, [0, 1], [0, 2], NO_CLASS),
        (CLASSES, [0, 1], [0, "positive"], NO_CLASS),
    ],
)
def test_classes_that_are_not_those_of_the_label_words_are_refused(
    tmp_path: Path, names: list[str], labels: list[int], values: list[Any] | None, sentence: str
) -> None:
    content = of_classes(tmp_path, names, labels)
    task = TASK if values is None else {**TASK, "values": values}
    assert sentence in refused(tmp_path, content, task, kind="parquet")


@pytest.mark.parametrize(
    ("values", "expected"),
    [(["negative", "positive"], [1, 0]), ([1, 0], [1, 0]), ([0, 1], [0, 1]), (["1", 0], [1, 0])],
)
def test_values_are_names_or_numbers_of_classes(
    tmp_path: Path, values: list[Any], expected: list[int]
) -> None:
    content = of_classes(tmp_path, ["positive", "negative", "other"], [0, 1])
    task = {**TASK, "values": values}
    (tmp_path / "train.parquet").write_bytes(content)
    path = tmp_path / "train.parquet"
    frame = read_texts("reviews", task, {"train": path, "test": path})
    assert train_labels(frame) == expected


PAIRS: dict[str, Any] = {
    "columns": {"hypothesis": "second", "premise": ["title", "body"], "label": "label"},
    "labels": [" No", " Yes"],
}


def pairs(folder: Path, train: str) -> pl.DataFrame:
    files = {"train": folder / "train.csv", "test": folder / "test.csv"}
    files["train"].write_text(train)
    files["test"].write_text("title,body,second,label\nT,b,s,Yes\n")
    return read_texts("nli", PAIRS, files)


def test_fields_are_joined_by_the_unit_separator_in_the_columns_order(tmp_path: Path) -> None:
    read = pairs(tmp_path, "label,body,title,second\nNo,it rains,Today,It is dry\n")
    assert read.schema == frame_schema(TEXTS)
    assert read["text"].to_list() == ["It is dry\x1fToday it rains", "s\x1fT b"]
    assert read["label"].to_list() == [0, 1]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("title,body,second,label\nT,b,s,Yes\nT,b\x1fc,s,No\n", "row 2 has the character U+001F i"),
        ("title,body,second,label\nT,b,s,No\nT,b, ,No\n", "row 2 has an empty hypothesis (1 in al"),
        ("title,body,o,label\nT,b,s,No\n", 'there is no column "second" (it has title, body, o, l'),
        ("title,body,o,label\nT,b,s,No\n", "set tasks.nli.columns.hypothesis."),
        ("title,body,second,label,id\nT,b,5,No,5\n", 'column "second" holds numbers alone, and th'),
    ],
)
def test_what_is_wrong_in_a_field_is_told_with_the_field(
    tmp_path: Path, content: str, sentence: str
) -> None:
    with pytest.raises(InputError) as error:
        pairs(tmp_path, content)
    assert sentence in str(error.value)


def test_a_task_with_one_field_may_have_the_unit_separator(tmp_path: Path) -> None:
    assert read(tmp_path, "text,label\na\x1fb,Positive\n")["text"][0] == "a\x1fb"


def many(*counts: int) -> pl.DataFrame:
    """Training texts with so many of each label, numbered, the labels mixed."""
    labels = [label for label, count in enumerate(counts) for _ in range(count)]
    frame = pl.DataFrame({"text": map(str, range(len(labels))), "label": labels})
    return frame.sample(fraction=1, shuffle=True, seed=1)


def test_a_large_training_split_is_drawn_from_with_every_labels_share() -> None:
    texts = many(3000, 900, 300, 40)
    drawn = drawn_of_labels(texts, 2120, "reviews")
    # Half of each label, but not fewer than 100 of a rare one, or all it has.
    assert drawn["label"].value_counts().sort("label")["count"].to_list() == [1500, 450, 150, 40]
    assert drawn.columns == texts.columns
    # In the source's order, so that the draw alone says which texts are left out.
    assert drawn.equals(texts.join(drawn, on="text", how="semi", maintain_order="left"))


def test_more_training_texts_include_fewer_and_the_draw_belongs_to_the_task() -> None:
    texts = many(2000, 2000)
    few, more = (drawn_of_labels(texts, most, "reviews")["text"] for most in (800, 1200))
    assert set(few) < set(more)
    assert set(drawn_of_labels(texts, 800, "news")["text"]) != set(few)
    assert drawn_of_labels(texts, 4000, "reviews").equals(texts)
    assert drawn_of_labels(texts, None, "reviews").equals(texts)


def test_texts_of_a_file_are_drawn_and_numbered_anew(tmp_path: Path) -> None:
    lines = [f"text {row},{'Positive' if row % 2 else 'Negative'}" for row in range(400)]
    found = read(tmp_path, "\n".join(["text,label", *lines]), {**TASK, "train_examples": 250})
    train = found.filter(pl.col("split") == "train")
    assert len(train) == 250
    assert train["row"].to_list() == list(range(250))
    assert found.filter(pl.col("split") == "test")["text"].to_list() == ["good"]
