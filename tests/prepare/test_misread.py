"""Small inputs that are easily misread: each is read right, or refused with the line to copy."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import datasets
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anchorflow.config.as_written import read_configuration
from anchorflow.config.configuration import complete_configuration
from anchorflow.config.errors import InputError
from anchorflow.config.named_files import files_of_texts
from anchorflow.config.places import WORKFLOW
from anchorflow.prepare.described_texts import described_texts, distinct_draws, remarks
from anchorflow.prepare.samples import draw_samples
from anchorflow.prepare.texts import read_texts

WORDS = (" Negative", " Positive")
TASK = {"columns": {"text": "text", "label": "label"}, "labels": WORDS}
FIVE = (" 1 star", " 2 stars", " 3 stars", " 4 stars", " 5 stars")


def numbered(*labels: int) -> list[tuple[str, int]]:
    return [(chr(97 + row), label) for row, label in enumerate(labels)]


def rows(*labels: Any) -> str:
    """A CSV file with the texts a, b, c, … and these labels."""
    return "text,label\n" + "".join(f"{chr(97 + n)},{label}\n" for n, label in enumerate(labels))


def with_classes(names: Any, labels: Sequence[int] = (1, 0)) -> bytes:
    features = {"label": {"names": names, "_type": "ClassLabel"}}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    table = pa.table({"text": ["a", "b"], "label": labels}).replace_schema_metadata(metadata)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


class Misread(NamedTuple):
    """A training file, and the texts and labels in it, or a part of the sentence."""

    content: str | bytes
    right: list[tuple[str, int]] | str
    kind: str
    task: dict[str, Any]  # its own keys


def file(
    content: str | bytes, right: list[tuple[str, int]] | str, kind: str = "csv", **task: Any
) -> Misread:
    return Misread(content, right, kind, task)


def held(values: Sequence[Any], right: Sequence[int] | str, /, **task: Any) -> Misread:
    """A file whose label column holds these values, and the labels that they are."""
    return file(rows(*values), right if isinstance(right, str) else numbered(*right), **task)


HEAD = "text,label\n"
UNCLOSED = '"so good,Positive\nso bad,Negative\nso so,Negative\nfine",Positive\n'
IN_TABS = ("text,label\n" + UNCLOSED).replace(",", "\t")
TWO_WAYS = 'lines 2 to 5 are one row if .* 4 rows .* "quoting: double" .*"quoting: none" for 4'
TRUTH = '{"text": "a", "label": true}\n{"text": "b", "label": false}\n'
NOT_NAMES = "are not distinct texts; write the file again"
BOTH = rows("Positive", "Negative")

CASES = {
    # Labels as they are written.
    "words with leading zeros": held(["01", "00", "01"], [0, 1, 0], labels=[" 01", " 00"]),
    "such words in order": held(["002", "000", "001"], [2, 0, 1], labels=["000", "001", "002"]),
    "words with signs": held(["+1", "+0"], [0, 1], labels=["+1", "+0"]),
    "words with points": held(["1.0", "0.0"], [0, 1], labels=["1.0", "0.0"]),
    "words from one": held(["02", "01"], [1, 0], labels=["01", "02"]),
    "integers for words with points": held(
        [1, 0], r'write "values: \[1, 0\]" for the words, or', labels=["1.0", "0.0"]
    ),
    "values with leading zeros": held(["008", "007"], [1, 0], values=["007", "008"]),
    "numbers where these have": held([8, 7], "none of 007, 008", values=["007", "008"]),
    "values that are words of truth": held(["false", "true"], [1, 0], values=["true", "false"]),
    "values that are times": held(["1:30", "2:30"], [0, 1], values=["1:30", "2:30"]),
    "values in the user's order, as other numbers": held(
        ["0.0", "1.0"], r'"values: \["1.0", "0.0"\]"', values=[1, 0], labels=FIVE[:2]
    ),
    "values in the user's order, in another case": held(
        ["neg", "pos"], r'"values: \["pos", "neg"\]"', values=["POS", "NEG"]
    ),
    "white space": held(["Positive ", "Negative"], 'like "Positive": it has white space around it'),
    "words of truth for yes and no": held(
        ["true", "false"], r'"values: \["true", "false"\]"', labels=[" Yes", " No"]
    ),
    "indices": held([1, 0, 1], [1, 0, 1]),
    "ratings without the highest": held(
        [1, 2, 3, 4], r'write "values: \[1, 2, 3, 4, 5\]" under tasks\.reviews', labels=FIVE
    ),
    "ratings from one": held([1, 2, 5], r'"values: \[1, 2, 3, 4, 5\]"', labels=FIVE),
    "minus one and one": held([1, -1], r'"values: \[-1, 1\]" under tasks\.reviews'),
    "minus one and one, as values": held([1, -1], [1, 0], values=[-1, 1]),
    "whole floats of two labels": held(["1.0", "0.0"], [1, 0]),
    "whole floats of five labels": held(["1.0", "0.0"], "the label '1.0'", labels=FIVE),
    "fractions": held([1, 0.5], "row 1 has the label '1'|row 2 has the label '0.5'"),
    "TRUE in a file": held(["TRUE", "FALSE"], r'"values: \["FALSE", "TRUE"\]"'),
    "words in another case": held(
        ["positive", "negative"], r'"values: \["negative", "positive"\]"'
    ),
    "a zero-width space": held(["Positive\u200b", "Negative"], r'like "Positive": it has U\+200B'),
    "Kelvin's sign": held(["\u212a", "C"], r'like "K": it has U\+212A', labels=["C", "K"]),
    "decomposed characters": held(
        ["cafe\u0301", "bar"], r"it has U\+0301, the label word U\+00E9", labels=["bar", "café"]
    ),
    # Forms of files, quotation marks, encodings, and copies.
    "a mark at a text's begin": file(
        'text\tlabel\n"quite" good\tPositive\n"never again\tNegative\n',
        [('"quite" good', 1), ('"never again', 0)],
        "tsv",
    ),
    "marks inside": file(
        'text\tlabel\na film called "Rain"\tPositive\nthe "best"\tNegative\n',
        [('a film called "Rain"', 1), ('the "best"', 0)],
        "tsv",
    ),
    "a mark that closes in a later row": file(IN_TABS, TWO_WAYS, "tsv"),
    "the same, as its key says": file(
        IN_TABS, [('"so good', 1), ("so bad", 0), ("so so", 0), ('fine"', 1)], "tsv", quoting="none"
    ),
    "TSV that quotes, as its key says": file(
        'text\tlabel\n"two\nlines, ""so""\tand a tab"\tPositive\n',
        [('two\nlines, "so"\tand a tab', 1)],
        "tsv",
        quoting="double",
    ),
    "a mark that closes three rows later": file(HEAD + UNCLOSED, TWO_WAYS),
    "a mark that never closes": file(
        HEAD + 'a,Positive\n"b,Negative\n', "line 3 opens a quotation mark that is never"
    ),
    "a quoted line break": file(HEAD + '"a\nb",Positive\nc,Negative\n', [("a\nb", 1), ("c", 0)]),
    "doubled marks": file(HEAD + '"a ""b"" c",Positive\n', [('a "b" c', 1)]),
    "Mac's line ends": file(BOTH.replace("\n", "\r"), numbered(1, 0)),
    "TSV whose fields are all in marks": file(
        'text\tlabel\n"a ""b"" c"\tPositive\nd\t"Negative"\n',
        'all quotation marks enclose fields, the first in line 2; write "quoting: double"',
        "tsv",
    ),
    "TSV whose header is in marks": file(
        '"text"\t"label"\na\tPositive\n', "enclose fields, the first in line 1; write", "tsv"
    ),
    "all in marks, as its key says": file(
        'text\tlabel\n"a"\tPositive\n', [('"a"', 1)], "tsv", quoting="none"
    ),
    "semicolons": file(
        "text;label\nwell, a;Positive\n", "seem to be separated by ';'; write it with ',' instead"
    ),
    "a suffix in capitals": file(BOTH, numbered(1, 0), "CSV"),
    "JSON lines with a broken one": file(
        '{"text": "a", "label": "Positive"}\n\n{"text": "b", "label: 1}\n',
        r"\(line 3, column \d+: ",
        "jsonl",
    ),
    "texts that are numbers": file(HEAD + "42,Positive\n", [("42", 1)]),
    "beside row numbers": file(
        "id,text,label\n7,42,Positive\n", r'"text" holds numbers alone, and .* \(id, text, label\)'
    ),
    "as JSON says": file('{"id": 7, "text": "42", "label": "Positive"}\n', [("42", 1)], "jsonl"),
    "TSV with a missing label": file("text\tlabel\na\n", "line 2 has 1 fields", "tsv"),
    "a label that is not a number": file(
        '{"text": "a", "label": 0.0}\n{"text": "b", "label": NaN}\n',
        "row 2 has the label None",
        "jsonl",
    ),
    "truth": file(TRUTH, numbered(1, 0), "jsonl"),
    "truth in the user's order": file(
        TRUTH, r'"values: \[true, false\]" under tasks\.reviews\.$', "jsonl", values=[1, 0]
    ),
    "truth for one and zero": file(
        TRUTH,
        r'which of them stands for which, as in "values: \[true, false\]"',
        "jsonl",
        labels=[" 1", " 0"],
    ),
    "truth for yes and no": file(
        TRUTH, r'"values: \[true, false\]"', "jsonl", labels=[" yes", " no"]
    ),
    "a class without a word": file(
        with_classes(["neg", "neu", "pos"]),
        r"row 1 has the label 1, which is none of 0, 2; correct it, or set",
        "parquet",
        values=["neg", "pos"],
    ),
    "a class of -1": file(
        with_classes(["Negative", "Positive"], [1, -1]),
        "row 2 has the label -1, .* a class of -1 means that there is no label",
        "parquet",
    ),
    "classes that are integers": file(with_classes([1, 2]), NOT_NAMES, "parquet"),
    "classes that repeat": file(with_classes(["x", "x"]), NOT_NAMES, "parquet"),
    "classes that are one text": file(with_classes("ab"), NOT_NAMES, "parquet"),
    "classes in the other order": file(
        with_classes(["Positive", "Negative"]),
        'in this order, so "Positive" would get the label word "Negative"',
        "parquet",
    ),
    "UTF-16 with its mark": file(BOTH.encode("utf-16"), numbered(1, 0)),
    "UTF-32 with its mark": file(BOTH.encode("utf-32"), numbered(1, 0)),
    "without it": file(BOTH.encode("utf-16-le"), "UTF-16 without a byte order mark"),
    "Windows-1252": file(
        f"{HEAD}café,Positive\n".encode("cp1252"), 'byte 0xe9, which Windows-1252 reads as "é"'
    ),
    "a list of records": file(
        '[{"text": "a", "label": "Positive"}, {"text": "b", "label": "Negative"}]',
        numbered(1, 0),
        "json",
    ),
    "columns by name": file(
        '{"text": ["a", "b"], "label": ["Positive", "Negative"]}', numbered(1, 0), "json"
    ),
    "columns by name and row": file(
        '{"text": {"0": "a", "1": "b"}, "label": {"0": "Positive", "1": "Negative"}}',
        numbered(1, 0),
        "json",
    ),
    "a spreadsheet": file(b"PK", r"\.arrow files; export the sheet as CSV in UTF-8", "xlsx"),
    "a text that is not seen": file(HEAD + "\u200b\u2060,Positive\n", "row 1 has an empty"),
    "nothing but a mark of order": file(
        HEAD + "a,Positive\n\ufeff,Negative\n", "row 2 has an empty text"
    ),
    "marks that are stripped": file(
        HEAD + " go\u200bod \u202e,Positive\n", [("good", 1)], invisible="strip"
    ),
    "marks that end a line": file(
        HEAD + "so\u2028good\x0bfilm\x85,Positive\n", [("so good film", 1)], invisible="strip"
    ),
    "a text that strips to nothing": file(
        HEAD + "\u2065,Positive\n", "row 1 has an empty text", invisible="strip"
    ),
    "marks that are refused": file(
        HEAD + "a,Positive\n b,Negative\n",
        'row 2 has invisible characters .* "invisible: strip"',
        invisible="refuse",
    ),
    "copies that are refused": file(
        HEAD + "a,Positive\nb,Negative\na ,Positive\n",
        "3 texts repeat others, the first one in row 1 ",
        repeated="refuse",
    ),
    "copies that are dropped": file(
        HEAD + "a,Positive\ne\u0301,Negative\na ,Positive\n\u00e9,Negative\n",
        'reviews.train: "repeated: drop" leaves none of 4 texts, as all of them are test texts',
        repeated="drop",
    ),
}


def read(
    folder: Path, train: str | bytes, test: str | bytes, kind: str = "csv", **task: Any
) -> pl.DataFrame:
    files = {split: folder / f"{split}.{kind}" for split in ("train", "test")}
    for path, content in zip(files.values(), (train, test), strict=True):
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_texts("reviews", {**TASK, **task}, files)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_an_input_is_read_right_or_refused_in_one_sentence(case: Misread, tmp_path: Path) -> None:
    if isinstance(case.right, str):
        with pytest.raises(InputError) as error:
            read(tmp_path, case.content, case.content, case.kind, **case.task)
        assert re.search(case.right, str(error.value))
        assert "\n" not in str(error.value)
        return
    frame = read(tmp_path, case.content, case.content, case.kind, **case.task)
    assert frame.filter(split="test").select("text", "label").rows() == case.right


def test_one_line_is_not_proposed_for_words_and_numbers(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"label '1', .* hold labels of another kind"):
        read(tmp_path, BOTH, rows(1, 2))


def test_copies_are_dropped_and_the_first_of_each_is_kept(tmp_path: Path) -> None:
    train = f"{HEAD}a,Positive\ne\u0301,Negative\na ,Positive\n\u00e9,Negative\nx,Positive\n"
    frame = read(tmp_path, train, HEAD + "x,Positive\n", repeated="drop")
    assert frame["text"].to_list() == ["a", "e\u0301", "x"]


@pytest.mark.parametrize("zero", ["train", "test"])
def test_integers_are_indices_if_zero_is_in_either_file(zero: str, tmp_path: Path) -> None:
    """A training file of one class is as good as one of both."""
    labels = {split: int(split != zero) for split in ("train", "test")}
    frame = read(tmp_path, *map(rows, labels.values()))
    assert dict(frame.select("split", "label").iter_rows()) == labels


def test_a_saved_data_set_is_read_by_its_parts_and_class_names(tmp_path: Path) -> None:
    features = datasets.Features(
        text=datasets.Value("string"), label=datasets.ClassLabel(names=["Positive", "Negative"])
    )
    part = datasets.Dataset.from_dict({"text": ["a", "b"], "label": [0, 1]}, features=features)
    both = datasets.DatasetDict(train=part, test=part.select([1]))
    both.save_to_disk(str(tmp_path / "saved"))
    saved = {split: str(tmp_path / "saved" / split) for split in ("train", "test")}
    files = {split: files_of_texts(f"tasks.reviews.{split}", path) for split, path in saved.items()}
    frame = read_texts("reviews", {**TASK, "values": ["Negative", "Positive"]}, files)
    assert frame.select("text", "label").rows() == [("a", 1), ("b", 0), ("b", 0)]
    with pytest.raises(InputError, match=re.escape(str(tmp_path / "saved" / "train"))):
        files_of_texts("tasks.reviews.train", str(tmp_path / "saved"))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("labels: [no, yes]", 'line 9: under labels, YAML reads no as bool; .*: "no"'),
        ("labels: [off, on]", 'YAML reads off as bool; .*: "off"'),
        ("labels: [1_000, 2]", 'YAML reads 1_000 as int; .*: "1_000"'),
        ("labels: [1:30, 2:30]", 'YAML reads 1:30 as int; .*: "1:30"'),
        ("labels: [null, x]", 'YAML reads null as null; .*: "null"'),
        ("labels: [2020-01-01, x]", 'YAML reads 2020-01-01 as timestamp; .*: "2020-01-01"'),
        ('labels: [" a", " b"]\n    values: [007, 008]', 'YAML reads 007 as int; .*: "007"'),
        ('labels: [" a", " b"]\n    values: [1.50, x]', 'YAML reads 1.50 as float; .*: "1.50"'),
        ('labels: [" a", " b"]\n    values: [2024-13-01, x]', "YAML reads 2024-13-01 as"),
        ('labels: [" a", " b"]\n    note: 2024-13-01', "not readable as YAML"),
        ('labels: [" \u212a", " K"]', r"look alike; .* U\+212A and ASCII"),
        ('labels: [" caf\u00e9", " cafe\u0301"]', r"look alike; .* U\+00E9 and U\+0301"),
        ('labels: [" a", " a\u200b"]', r"look alike; .* ASCII and U\+200B"),
    ],
)
def test_words_that_yaml_or_a_reader_takes_for_others_are_refused(
    line: str, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "models:\n  tiny: {source: constructed}\ntasks:\n  reviews:\n    source: local\n"
        '    train: train.csv\n    test: test.csv\n    template: "{text}:{label}"\n'
        f"    {line}\n",
        encoding="utf-8",
    )
    with pytest.raises(InputError) as error:
        config = read_configuration(file)
        config["models"] = {
            "small": {"source": "hub", "repository": "owner/small", "revision": "a" * 40}
        }
        complete_configuration(config, WORKFLOW / "schemas" / "config.schema.yaml")
    assert re.search(said, str(error.value))


def texts_of(train: Sequence[tuple[str, int]], test: Sequence[tuple[str, int]]) -> pl.DataFrame:
    listed = [("train", *part) for part in train], [("test", *part) for part in test]
    return pl.concat(
        pl.DataFrame(part, ["split", "text", "label"], orient="row")
        .with_columns(pl.lit("reviews").alias("task"), pl.col("label").cast(pl.Int32))
        .with_columns(pl.int_range(pl.len(), dtype=pl.Int32).alias("row"))
        for part in listed
    ).select("task", "split", "row", "text", "label")


OVERLAP = texts_of(
    [*((f"text {n}", n % 2) for n in range(6)), (" cafe\u0301", 0), ("other", 1)],
    [*((f"text {n} ", n % 2) for n in range(6)), ("caf\u00e9", 0)],
)


def test_no_text_is_among_its_own_demonstrations() -> None:
    """All but one training text are test texts, some with blanks or other characters."""
    for seed in range(20):
        samples = draw_samples(OVERLAP, seed, list(WORDS), 16, 2)
        for row in samples.iter_rows(named=True):
            query, *shown = (
                text.strip().replace("e\u0301", "\u00e9")
                for text in (row["text"], *row["demonstration_texts"])
            )
            assert query not in shown
            assert sorted(row["demonstration_labels"]) == [0, 0, 1, 1]


def check_remarks(found: list[str], begins: list[str]) -> None:
    assert [part[: len(begin)] for part, begin in zip(found, begins, strict=True)] == begins


def test_copies_are_drawn_once() -> None:
    texts = texts_of(
        [("good", 1), ("bad", 0), ("good", 1)],
        [("fine", 1), ("fine ", 1), ("fine", 1), ("poor", 0)],
    )
    samples = draw_samples(texts, 0, list(WORDS), 16, 1)
    assert samples.filter(demonstrations="fixed")["text"].to_list() == ["fine", "poor"]
    assert distinct_draws(samples) == "2 test texts in 1 seed, all distinct"
    drawn = [draw_samples(texts, seed, list(WORDS), 16, 1)["example"] for seed in range(8)]
    assert {tuple(rows.unique().sort()) for rows in drawn} == {(0, 3)}  # a text has one row
    said = [
        "the 3 training texts are 2 distinct ones, which are drawn once; 'good' repeats",
        "the 4 test texts are 2 distinct ones, which are drawn once; 'fine ' repeats",
        "1 test text with invisible characters or white space around them, as 'fine '; ",
        "Negative has 1 training text, so every seed has the same demonstrations of it",
        "Positive has 1 training text, so every seed has the same demonstrations of it",
        "16 test texts are asked for (test_examples), but there are 2, so every seed takes all",
    ]
    check_remarks(remarks(texts, WORDS, 3, 16, 1), said)


def test_overlaps_contradictions_and_single_classes_are_counted() -> None:
    texts = texts_of(
        [("good", 1), ("bad", 0), ("flat jokes", 0), ("flat jokes", 1), ("songs", 1)],
        [("good ", 1), ("new", 1)],
    )
    said = [
        "1 training text of 5 is among the test texts, as 'good'; no test text is among its own",
        "the 5 training texts are 4 distinct ones, which are drawn once; 'flat jokes' repeats",
        "2 training texts stand there with two labels, as 'flat jokes'; one of them counts in a",
        "1 test text with invisible characters or white space around them, as 'good '; ",
        "all test texts have the label Positive",
    ]
    check_remarks(remarks(texts, WORDS, 1, 2, 1), said)


def test_texts_are_described_by_label_length_and_first_texts() -> None:
    texts = texts_of([("good", 1), ("very bad", 0)], [("a much longer text " * 5, 1)])
    assert described_texts(texts, WORDS) == [
        "2 training texts (Negative 1, Positive 1)",
        "1 test text (Negative 0, Positive 1)",
        "shortest text: 'good'",
        f"longest text: {('a much longer text ' * 5)[:60] + '…'!r}",
        "the first text of Negative: 'very bad'",
        "the first text of Positive: 'good'",
    ]
