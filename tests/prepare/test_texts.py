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


def read(
    folder: Path, content: str | bytes, task: dict[str, Any] = TASK, kind: str = "csv"
) -> pl.DataFrame:
    """The training texts of a task whose files both hold ``content``."""
    path = folder / f"train.{kind}"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_texts("reviews", task, {"train": path, "test": path}).filter(split="train")


def parquet(folder: Path, columns: dict[str, pa.Array]) -> bytes:
    """Content of a Parquet file that does not say how pyarrow held it."""
    pq.write_table(pa.table(columns), folder / "source.parquet", store_schema=False)
    return (folder / "source.parquet").read_bytes()


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
    path = tmp_path / "texts.csv"
    path.write_text(GOOD, encoding="utf-8")
    frame = read_texts("reviews", TASK, {"train": path, "test": path})
    assert frame.schema == frame_schema(TEXTS)
    rows = [(0, "a good film", 1), (1, "a dull film", 0)]
    assert frame.rows() == [("reviews", split, *row) for split in ("train", "test") for row in rows]


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
    assert read(tmp_path, "text,label\n" + rows, task)["label"].to_list() == expected


def test_several_text_columns_are_joined_by_a_blank(tmp_path: Path) -> None:
    task = {"columns": {"text": ["title", "body"], "label": "class"}, "labels": LABELS}
    frame = read(tmp_path, "class,body,title\nPositive,it is long.,A title.\n", task)
    assert frame["text"].to_list() == ["A title. it is long."]


NAMED = {**TASK, "values": ["neg", "pos"]}
WITH_NONE = {**TASK, "values": ["None", "Positive"]}
OF_TWO = {**TASK, "columns": {"text": ["title", "body"], "label": "label"}}
PAIRS: dict[str, Any] = {
    "columns": {"hypothesis": "second", "premise": ["title", "body"], "label": "label"},
    "labels": [" No", " Yes"],
}
HEAD, OF_PAIRS = "text,label\n", "title,body,second,label\nT,b,s,No\n"
# By the files' ending: the task, the content, and a part of the sentence.
REFUSED: dict[str, list[tuple[dict[str, Any], str | bytes, str]]] = {
    "csv": [
        (TASK, "sentence,label\nx,No\n", '"text" (it has sentence, label); set tasks.reviews.colu'),
        (TASK, "text,class\nx,No\n", '"label" (it has text, class); set tasks.reviews.columns.l'),
        (TASK, "text,text,label\na,b,No\n", 'several columns are called "text"; rename one, or'),
        (TASK, "text,label,b\n1,No,x\n", 'column "text" holds numbers alone, and there are oth'),
        (TASK, HEAD, "the file holds no rows; texts are needed."),
        (TASK, f"{HEAD}x,Positive\ny,Neutral\n", "row 2 has the label 'Neutral', which is none"),
        (TASK, f"{HEAD}x,Neutral\n", "tasks.reviews.values (the column holds Neutral)."),
        (TASK, f"{HEAD}x,0\ny,1\nz,2\n", "row 3 has the label '2', which is none of 0, 1;"),
        (TASK, f"{HEAD}x,Positive\ny,\n", "row 2 has the label None"),
        (WITH_NONE, f"{HEAD}x,None\ny,\n", "row 2 has the label None"),
        (NAMED, GOOD, "row 1 has the label 'Positive', which is none of neg, pos;"),
        (TASK, f"{HEAD}x,Positive\ny\n", "(line 3 has 1 fields, the header 2)"),
        (TASK, f"{HEAD}x,1\n,0\n", "row 2 has an empty text (1 in all)"),
        (TASK, f'{HEAD}x,1\n"",0\n"  ",0\n', "row 2 has an empty text (2 in all)"),
        (TASK, f'{HEAD}x,1\n" \t\n",0\n', "row 2 has an empty text (1 in all)"),
        (OF_TWO, "title,body,label\nA,b,0\nA,,0\n", "row 2 has an empty text"),
        (PAIRS, f"{OF_PAIRS}T,b\x1fc,s,No\n", "row 2 has the character U+001F in its premise, w"),
        (PAIRS, f"{OF_PAIRS}T,b, ,No\n", "row 2 has an empty hypothesis (1 in all)"),
        (PAIRS, "title,body,o,label\n", 'no column "second" (it has title, body, o, label); set '),
        (PAIRS, "title,body,o,label\n", "set tasks.reviews.columns.hypothesis."),
        (PAIRS, "title,body,second,label,id\nT,b,5,No,5\n", '"second" holds numbers alone'),
        (TASK, b"", "not a readable csv file ("),
        (TASK, f"{HEAD}a, b and c,Positive\n", "not a readable csv file ("),
        (TASK, f'{HEAD}"a" b,Positive\n', "); quote texts with commas or line breaks, or replace"),
        (TASK, f'{HEAD}"a,Positive\n', "); quote texts with commas or line breaks, or replace"),
    ],
    "jsonl": [
        (TASK, '{"a": "x"}\n{"b": 1}\n', 'no column "text" (it has a, b); set tasks.reviews.col'),
        (TASK, '{"text": null, "label": "Positive"}\n', "row 1 has an empty text (1 in all)"),
        (TASK, b"", "not a readable jsonl file ("),
        (TASK, b'{"text": "a"\n', "not a readable jsonl file ("),
    ],
    "parquet": [
        (TASK, content, "not a readable parquet file (")
        for content in (b"", b"PAR1" + bytes(64) + b"PAR1", GOOD)
    ],
    "json": [
        (TASK, content, f"{reason}); correct it, or replace it with an intact copy.")
        for rows, reason in (
            (r'{"text": "\ud800", "label": 1}', "surrogates not allowed"),
            ('{"text": "x", "label": 1}\n{"text": 5, "label": 0}', "several kinds: str, int"),
            ('{"text": {"a": 1}, "label": 1}\n{"text": "x", "label": 0}', "kinds: dict, str"),
            ('{"text": "x", "label": 1}\n{"text": "y", "label": true}', "kinds: int, bool"),
            ('{"text": "x", "label": 1, "text": "y"}', "repeats a key among text, label, text"),
            ('{"text": "x", "label": 1}\n5', "row 2 is not an object"),
        )
        for content in (rows, "[" + rows.replace("\n", ",\n") + "]")
    ],
    # What could hold code or other files is not opened.
    **{
        kind: [(TASK, GOOD, ".parquet, .arrow files; convert it to one.")]
        for kind in ("pkl", "pickle", "py", "zip", "tar")
    },
}


@pytest.mark.parametrize(
    ("kind", "task", "content", "sentence"),
    [(kind, *row) for kind, table in REFUSED.items() for row in table],
)
def test_what_is_wrong_in_a_file_is_told_in_one_sentence(
    tmp_path: Path, kind: str, task: dict[str, Any], content: str | bytes, sentence: str
) -> None:
    assert sentence in refused(tmp_path, content, task, kind)


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
    found = read_texts("reviews", TASK, {"train": path, "test": path})
    assert found["text"].to_list() == ["this one"] * 2


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_what_is_no_file_is_not_waited_for(tmp_path: Path, kind: str) -> None:
    pipe, folder, missing = (tmp_path / f"{name}.{kind}" for name in ("pipe", "folder", "missing"))
    os.mkfifo(pipe)
    folder.mkdir()
    for path in (pipe, folder, missing):
        with pytest.raises(InputError, match=rf"{path}: no such file; correct the path"):
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
    assert frame["text"].to_list() == ["x", "y", "x"]
    assert frame["label"].to_list() == [0, 1, 1]


def test_columns_that_are_not_asked_for_may_hold_anything(tmp_path: Path) -> None:
    columns = {"text": pa.array(["x"]), "label": pa.array([0]), "more": pa.array([[b"\xff"]])}
    assert read(tmp_path, parquet(tmp_path, columns), kind="parquet")["text"][0] == "x"


def test_many_rows_are_read_in_seconds(tmp_path: Path) -> None:
    rows = "".join(f"text number {row},{LABELS[row % 2].strip()}\n" for row in range(20_000))
    begun = time.monotonic()
    labels = read(tmp_path, HEAD + rows)["label"].to_list()
    assert time.monotonic() - begun < 10
    assert labels == [0, 1] * 10_000


@pytest.mark.parametrize("word", ["NA", "None", "null", "nan", "N/A", "-"])
def test_what_pandas_takes_for_missing_is_a_text_and_a_label(tmp_path: Path, word: str) -> None:
    task = {**TASK, "values": [word, "Positive"]}
    frame = read(tmp_path, f"text,label\n{word},{word}\nx,Positive\n", task)
    assert frame.select("text", "label").rows() == [(word, 0), ("x", 1)]


def test_a_whole_file_has_one_type_however_long_it_is(tmp_path: Path) -> None:
    dates, words = ["2020-01-01"] * 7000, ["x" * 2000] * 6000  # the library takes 10 MiB at once
    labels = [0] * len(words) + [1] * len(dates)
    rows = zip(words + dates, labels, strict=True)
    lines = "".join(f'{{"text": "{text}", "label": {label}}}\n' for text, label in rows)
    assert read(tmp_path, lines, kind="jsonl")["text"].to_list() == words + dates


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
    lines = '{"text": "x", "label": 1}\n{"text": "y", "label": 0}\n'
    for kind, content in (("csv", f"{HEAD}x,1\ny,0\n"), ("jsonl", lines)):
        packed = PACK[packing](content.encode())
        frame = read(tmp_path, packed, kind=f"{kind}.{packing}")
        assert frame.select("text", "label").rows() == [("x", 1), ("y", 0)]
    rows = "".join(f"a text {row * 7919 % 1000},Positive\n" for row in range(2000))
    packed = PACK[packing](f"text,label\n{rows}".encode())
    told = refused(tmp_path, packed[: len(packed) // 2], kind=f"csv.{packing}")
    assert told.startswith(f"train.csv.{packing}: not a readable csv file (")


@pytest.mark.parametrize("kind", ["json", "jsonl", "ndjson"])
def test_json_is_a_list_of_objects_or_one_in_each_line(tmp_path: Path, kind: str) -> None:
    rows = [{"text": "x\u2028y", "label": "Positive"}, {"text": "y", "label": "Negative"}]
    lines = "\n\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    for content in (json.dumps(rows), json.dumps(rows, indent=2), lines):
        frame = read(tmp_path, f" \n{content}\n", kind=kind)
        assert frame["label"].to_list() == [1, 0]
        assert frame["text"][0] == "x\u2028y"


def test_parquet_and_arrow_are_read_as_csv_is(tmp_path: Path) -> None:
    table, path = pa.table({"text": ["x", "y"], "label": [1, 0]}), tmp_path / "source"
    pl.DataFrame(table).write_parquet(path)
    assert read(tmp_path, path.read_bytes(), kind="parquet")["label"].to_list() == [1, 0]
    for make in (pa.ipc.new_file, pa.ipc.new_stream):
        with make(path, table.schema) as writer:
            writer.write_table(table)
        assert read(tmp_path, path.read_bytes(), kind="arrow")["label"].to_list() == [1, 0]


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
        assert read(tmp_path, content, kind="parquet")["label"].to_list() == [1, 0, 1]


CLASSES = ["positive", "negative"]
NO_CLASS = "in tasks.reviews.values is none of them or repeats one"


@pytest.mark.parametrize(
    ("names", "values", "sentence"),
    [
        ([*CLASSES[::-1], "other"], {}, "3 for 2 label words; give one word per class"),
        *(
            (CLASSES, {"values": v}, NO_CLASS)
            for v in (["no", "positive"], [0, 2], [0, "positive"])
        ),
    ],
)
def test_classes_that_are_not_those_of_the_label_words_are_refused(
    tmp_path: Path, names: list[str], values: dict[str, Any], sentence: str
) -> None:
    content = of_classes(tmp_path, names, [0, 1])
    assert sentence in refused(tmp_path, content, TASK | values, kind="parquet")


@pytest.mark.parametrize(
    ("values", "expected"),
    [(["negative", "positive"], [1, 0]), ([1, 0], [1, 0]), ([0, 1], [0, 1]), (["1", 0], [1, 0])],
)
def test_values_are_names_or_numbers_of_classes(
    tmp_path: Path, values: list[Any], expected: list[int]
) -> None:
    content = of_classes(tmp_path, [*CLASSES, "other"], [0, 1])
    frame = read(tmp_path, content, {**TASK, "values": values}, kind="parquet")
    assert frame["label"].to_list() == expected


def test_fields_are_joined_by_the_unit_separator_in_the_columns_order(tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    path.write_text("label,body,title,second\nNo,it rains,Today,It is dry\n", encoding="utf-8")
    found = read_texts("nli", PAIRS, {"train": path, "test": path})
    assert found["text"].to_list() == ["It is dry\x1fToday it rains"] * 2


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
    lines = "".join(f"text {row},{row % 2}\n" for row in range(400))
    path = tmp_path / "texts.csv"
    path.write_text(HEAD + lines, encoding="utf-8")
    found = read_texts("reviews", {**TASK, "train_examples": 250}, {"train": path, "test": path})
    assert found.filter(split="train")["row"].to_list() == list(range(250))
    assert found.filter(split="test").height == 400  # of which none is drawn
