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
FIVE = (" 1 star", " 2 stars", " 3 stars", " 4 stars", " 5 stars")


class Misread(NamedTuple):
    """A training file, and the texts and labels in it, or a part of the sentence."""

    content: str | bytes
    right: Sequence[tuple[str, int]] | str
    kind: str = "csv"
    labels: Sequence[str] = WORDS
    more: Sequence[tuple[str, Any]] = ()


def rows(*labels: Any) -> str:
    """A CSV file with the texts a, b, c, … and these labels."""
    return "text,label\n" + "".join(
        f"{chr(97 + row)},{label}\n" for row, label in enumerate(labels)
    )


def numbered(*labels: int) -> list[tuple[str, int]]:
    return [(chr(97 + row), label) for row, label in enumerate(labels)]


def with_classes(names: Any, labels: Sequence[int] = (1, 0)) -> bytes:
    features = {"label": {"names": names, "_type": "ClassLabel"}}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    table = pa.table({"text": ["a", "b"], "label": labels}).replace_schema_metadata(metadata)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


UNCLOSED = '"so good,Positive\nso bad,Negative\nso so,Negative\nfine",Positive\n'
NOT_NAMES = "are not distinct texts; write the file again"
CASES = {
    # Quotation marks.
    "TSV with a mark at a text's begin": Misread(
        'text\tlabel\n"quite" good\tPositive\n"never again\tNegative\n',
        [('"quite" good', 1), ('"never again', 0)],
        "tsv",
    ),
    "TSV with marks inside": Misread(
        'text\tlabel\na film called "Rain"\tPositive\nthe "best"\tNegative\n',
        [('a film called "Rain"', 1), ('the "best"', 0)],
        "tsv",
    ),
    "TSV whose mark closes in a later row": Misread(
        "text\tlabel\n" + UNCLOSED.replace(",", "\t"),
        'lines 2 to 5 are one row if .* 4 rows .* write "quoting: double" .*"quoting: none" for 4',
        "tsv",
    ),
    "the same, as its key says": Misread(
        "text\tlabel\n" + UNCLOSED.replace(",", "\t"),
        [('"so good', 1), ("so bad", 0), ("so so", 0), ('fine"', 1)],
        "tsv",
        more=[("quoting", "none")],
    ),
    "TSV that quotes, as its key says": Misread(
        'text\tlabel\n"two\nlines, ""so""\tand a tab"\tPositive\n',
        [('two\nlines, "so"\tand a tab', 1)],
        "tsv",
        more=[("quoting", "double")],
    ),
    "CSV whose mark closes three rows later": Misread(
        "text,label\n" + UNCLOSED,
        'lines 2 to 5 are one row if .* 4 rows .* write "quoting: double" .*"quoting: none" for 4',
    ),
    "CSV whose mark never closes": Misread(
        'text,label\na,Positive\n"b,Negative\n', "line 3 opens a quotation mark that is never"
    ),
    "CSV with a line break in quotation marks": Misread(
        'text,label\n"a\nb",Positive\nc,Negative\n', [("a\nb", 1), ("c", 0)]
    ),
    "CSV with doubled marks": Misread('text,label\n"a ""b"" c",Positive\n', [('a "b" c', 1)]),
    "CSV with Mac's line ends": Misread("text,label\ra,Positive\rb,Negative\r", numbered(1, 0)),
    "TSV whose fields are all in marks": Misread(
        'text\tlabel\n"a ""b"" c"\tPositive\nd\t"Negative"\n',
        'all quotation marks enclose fields, the first in line 2; write "quoting: double"',
        "tsv",
    ),
    "TSV whose header is in marks": Misread(
        '"text"\t"label"\na\tPositive\n', "enclose fields, the first in line 1; write", "tsv"
    ),
    "TSV whose fields are all in marks, as its key says": Misread(
        'text\tlabel\n"a"\tPositive\n', [('"a"', 1)], "tsv", more=[("quoting", "none")]
    ),
    "CSV with semicolons": Misread(
        "text;label\nwell, a;Positive\n", "seem to be separated by ';'; write it with ',' instead"
    ),
    "a suffix in capitals": Misread(rows("Positive", "Negative"), numbered(1, 0), "CSV"),
    "JSON lines with a broken one": Misread(
        '{"text": "a", "label": "Positive"}\n\n{"text": "b", "label: 1}\n',
        r"\(line 3, column \d+: ",
        "jsonl",
    ),
    "texts that are numbers": Misread("text,label\n42,Positive\n", [("42", 1)]),
    "texts that are numbers, beside row numbers": Misread(
        "id,text,label\n7,42,Positive\n", r'"text" holds numbers alone, and .* \(id, text, label\)'
    ),
    "texts that are numbers, as JSON says": Misread(
        '{"id": 7, "text": "42", "label": "Positive"}\n', [("42", 1)], "jsonl"
    ),
    "TSV with a missing label": Misread("text\tlabel\na\n", "line 2 has 1 fields", "tsv"),
    # Labels as they are written.
    "words with leading zeros": Misread(
        rows("01", "00", "01"), numbered(0, 1, 0), labels=[" 01", " 00"]
    ),
    "words with leading zeros in increasing order": Misread(
        rows("002", "000", "001"), numbered(2, 0, 1), labels=["000", "001", "002"]
    ),
    "words with signs": Misread(rows("+1", "+0"), numbered(0, 1), labels=["+1", "+0"]),
    "words with points": Misread(rows("1.0", "0.0"), numbered(0, 1), labels=["1.0", "0.0"]),
    "words from one": Misread(rows("02", "01"), numbered(1, 0), labels=["01", "02"]),
    "integers for words with points": Misread(
        rows(1, 0), r'write "values: \[1, 0\]" for the words, or', labels=["1.0", "0.0"]
    ),
    "values with leading zeros": Misread(
        rows("008", "007"), numbered(1, 0), more=[("values", ["007", "008"])]
    ),
    "numbers where values have leading zeros": Misread(
        rows(8, 7), "none of 007, 008", more=[("values", ["007", "008"])]
    ),
    "values that are words of truth": Misread(
        rows("false", "true"), numbered(1, 0), more=[("values", ["true", "false"])]
    ),
    "values that are times": Misread(
        rows("1:30", "2:30"), numbered(0, 1), more=[("values", ["1:30", "2:30"])]
    ),
    "values in the user's order, as other numbers": Misread(
        rows("0.0", "1.0"),
        r'"values: \["1.0", "0.0"\]"',
        more=[("values", [1, 0])],
        labels=FIVE[:2],
    ),
    "values in the user's order, as truth": Misread(
        '{"text": "a", "label": true}\n{"text": "b", "label": false}\n',
        r'"values: \[true, false\]" under tasks\.reviews\.$',
        "jsonl",
        more=[("values", [1, 0])],
    ),
    "values in the user's order, in another case": Misread(
        rows("neg", "pos"), r'"values: \["pos", "neg"\]"', more=[("values", ["POS", "NEG"])]
    ),
    "a label that is not a number": Misread(
        '{"text": "a", "label": 0.0}\n{"text": "b", "label": NaN}\n',
        "row 2 has the label None",
        "jsonl",
    ),
    "a label with white space": Misread(
        rows("Positive ", "Negative"), 'looks like "Positive": it has white space around it'
    ),
    "a class without a word": Misread(
        with_classes(["neg", "neu", "pos"], [1, 0]),
        r"row 1 has the label 1, which is none of 0, 2; correct it, or set",
        "parquet",
        more=[("values", ["neg", "pos"])],
    ),
    "truth values for one and zero": Misread(
        '{"text": "a", "label": true}\n{"text": "b", "label": false}\n',
        r'which of them stands for which, as in "values: \[true, false\]"',
        "jsonl",
        labels=[" 1", " 0"],
    ),
    "words of truth for yes and no": Misread(
        rows("true", "false"), r'"values: \["true", "false"\]"', labels=[" Yes", " No"]
    ),
    "a class of -1": Misread(
        with_classes(["Negative", "Positive"], [1, -1]),
        "row 2 has the label -1, .* a class of -1 means that there is no label",
        "parquet",
    ),
    "indices": Misread(rows(1, 0, 1), numbered(1, 0, 1)),
    "ratings without the highest": Misread(
        rows(1, 2, 3, 4), r'write "values: \[1, 2, 3, 4, 5\]" under tasks\.reviews', labels=FIVE
    ),
    "ratings from one": Misread(rows(1, 2, 5), r'"values: \[1, 2, 3, 4, 5\]"', labels=FIVE),
    "minus one and one": Misread(rows(1, -1), r'"values: \[-1, 1\]" under tasks\.reviews'),
    "minus one and one, as values": Misread(
        rows(1, -1), numbered(1, 0), more=[("values", [-1, 1])]
    ),
    "whole floats of two labels": Misread(rows("1.0", "0.0"), numbered(1, 0)),
    "whole floats of five labels": Misread(rows("1.0", "0.0"), "the label '1.0'", labels=FIVE),
    "fractions": Misread(rows(1, 0.5), "row 1 has the label '1'|row 2 has the label '0.5'"),
    "truth values of JSON": Misread(
        '{"text": "a", "label": true}\n{"text": "b", "label": false}\n', numbered(1, 0), "jsonl"
    ),
    "truth values for yes and no": Misread(
        '{"text": "a", "label": true}\n{"text": "b", "label": false}\n',
        r'"values: \[true, false\]"',
        "jsonl",
        labels=[" yes", " no"],
    ),
    "TRUE in a file": Misread(rows("TRUE", "FALSE"), r'"values: \["FALSE", "TRUE"\]"'),
    "words in another case": Misread(
        rows("positive", "negative"), r'"values: \["negative", "positive"\]"'
    ),
    "a word with a zero-width space": Misread(
        rows("Positive\u200b", "Negative"), r'looks like "Positive": it has U\+200B'
    ),
    "a word with Kelvin's sign": Misread(
        rows("\u212a", "C"), r'looks like "K": it has U\+212A', labels=["C", "K"]
    ),
    "a word in decomposed characters": Misread(
        rows("cafe\u0301", "bar"), r"it has U\+0301, the label word U\+00E9", labels=["bar", "café"]
    ),
    "classes that are integers": Misread(with_classes([1, 2]), NOT_NAMES, "parquet"),
    "classes that repeat": Misread(with_classes(["x", "x"]), NOT_NAMES, "parquet"),
    "classes that are one text": Misread(with_classes("ab"), NOT_NAMES, "parquet"),
    "classes in the other order": Misread(
        with_classes(["Positive", "Negative"]), "in this order, so", "parquet"
    ),
    # Encodings and forms of files.
    "UTF-16 with its mark": Misread(rows("Positive", "Negative").encode("utf-16"), numbered(1, 0)),
    "UTF-32 with its mark": Misread(rows("Positive", "Negative").encode("utf-32"), numbered(1, 0)),
    "UTF-16 without its mark": Misread(
        rows("Positive", "Negative").encode("utf-16-le"), "UTF-16 without a byte order mark"
    ),
    "Windows-1252": Misread(
        "text,label\ncafé,Positive\n".encode("cp1252"), 'byte 0xe9, which Windows-1252 reads as "é"'
    ),
    "a list of records": Misread(
        '[{"text": "a", "label": "Positive"}, {"text": "b", "label": "Negative"}]',
        numbered(1, 0),
        "json",
    ),
    "columns by name": Misread(
        '{"text": ["a", "b"], "label": ["Positive", "Negative"]}', numbered(1, 0), "json"
    ),
    "columns by name and row": Misread(
        '{"text": {"0": "a", "1": "b"}, "label": {"0": "Positive", "1": "Negative"}}',
        numbered(1, 0),
        "json",
    ),
    "a spreadsheet": Misread(b"PK", "export the sheet as CSV in UTF-8", "xlsx"),
    "a text that is not seen": Misread("text,label\n\u200b\u2060,Positive\n", "row 1 has an empty"),
    "a text that strips to nothing but a mark of order": Misread(
        "text,label\na,Positive\n\ufeff,Negative\n", "row 2 has an empty text"
    ),
    "marks that are stripped": Misread(
        "text,label\n go\u200bod \u202e,Positive\n", [("good", 1)], more=[("invisible", "strip")]
    ),
    "marks that end a line": Misread(
        "text,label\nso\u2028good\x0bfilm\x85,Positive\n",
        [("so good film", 1)],
        more=[("invisible", "strip")],
    ),
    "a text that strips to nothing": Misread(
        "text,label\n\u2065,Positive\n", "row 1 has an empty text", more=[("invisible", "strip")]
    ),
    "marks that are refused": Misread(
        "text,label\na,Positive\n b,Negative\n",
        'row 2 has invisible characters .* "invisible: strip"',
        more=[("invisible", "refuse")],
    ),
    # Copies.
    "copies that are refused": Misread(
        "text,label\na,Positive\nb,Negative\na ,Positive\n",
        "3 texts repeat others, the first one in row 1 ",
        more=[("repeated", "refuse")],
    ),
    "copies that are dropped": Misread(
        "text,label\na,Positive\ne\u0301,Negative\na ,Positive\n\u00e9,Negative\n",
        r'reviews.train: "repeated: drop" leaves none of 4 texts, as all of them are test texts',
        more=[("repeated", "drop")],
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_an_input_is_read_right_or_refused_in_one_sentence(case: Misread, tmp_path: Path) -> None:
    content = case.content.encode() if isinstance(case.content, str) else case.content
    files = {split: tmp_path / f"{split}.{case.kind}" for split in ("train", "test")}
    for path in files.values():
        path.write_bytes(content)
    task = {"columns": {"text": "text", "label": "label"}, "labels": case.labels, **dict(case.more)}
    if isinstance(case.right, str):
        with pytest.raises(InputError) as error:
            read_texts("reviews", task, files)
        assert re.search(case.right, str(error.value))
        assert "\n" not in str(error.value)
        return
    frame = read_texts("reviews", task, files).filter(split="test")
    assert frame.select("text", "label").rows() == list(case.right)


def test_one_line_is_not_proposed_for_words_and_numbers(tmp_path: Path) -> None:
    files = {split: tmp_path / f"{split}.csv" for split in ("train", "test")}
    files["train"].write_text(rows("Positive", "Negative"), encoding="utf-8")
    files["test"].write_text(rows(1, 2), encoding="utf-8")
    task = {"columns": {"text": "text", "label": "label"}, "labels": WORDS}
    with pytest.raises(InputError, match=r"label '1', .* hold labels of another kind"):
        read_texts("reviews", task, files)


def test_copies_are_dropped_and_the_first_of_each_is_kept(tmp_path: Path) -> None:
    files = {split: tmp_path / f"{split}.csv" for split in ("train", "test")}
    files["train"].write_text(
        "text,label\na,Positive\ne\u0301,Negative\na ,Positive\n\u00e9,Negative\nx,Positive\n",
        encoding="utf-8",
    )
    files["test"].write_text("text,label\nx,Positive\n", encoding="utf-8")
    task = {"columns": {"text": "text", "label": "label"}, "labels": WORDS, "repeated": "drop"}
    frame = read_texts("reviews", task, files)
    assert frame["text"].to_list() == ["a", "e\u0301", "x"]


@pytest.mark.parametrize("zero", ["train", "test"])
def test_integers_are_indices_if_zero_is_in_either_file(zero: str, tmp_path: Path) -> None:
    """A training file of one class is as good as one of both."""
    files = {split: tmp_path / f"{split}.csv" for split in ("train", "test")}
    for split, path in files.items():
        path.write_text(rows(0 if split == zero else 1), encoding="utf-8")
    task = {"columns": {"text": "text", "label": "label"}, "labels": WORDS}
    labels = dict(read_texts("reviews", task, files).select("split", "label").iter_rows())
    assert labels == {split: int(split != zero) for split in files}


def test_a_saved_data_set_is_read_by_its_parts_and_class_names(tmp_path: Path) -> None:
    features = datasets.Features(
        text=datasets.Value("string"), label=datasets.ClassLabel(names=["Positive", "Negative"])
    )
    part = datasets.Dataset.from_dict({"text": ["a", "b"], "label": [0, 1]}, features=features)
    both = datasets.DatasetDict(train=part, test=part.select([1]))
    both.save_to_disk(str(tmp_path / "saved"))
    saved = {split: str(tmp_path / "saved" / split) for split in ("train", "test")}
    files = {split: files_of_texts(f"tasks.reviews.{split}", path) for split, path in saved.items()}
    task = {
        "columns": {"text": "text", "label": "label"},
        "labels": WORDS,
        "values": ["Negative", "Positive"],
    }
    frame = read_texts("reviews", task, files)
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
            query = row["text"].strip().replace("e\u0301", "\u00e9")
            shown = [
                text.strip().replace("e\u0301", "\u00e9") for text in row["demonstration_texts"]
            ]
            assert query not in shown
            assert sorted(row["demonstration_labels"]) == [0, 0, 1, 1]


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
    assert remarks(texts, WORDS, 3, 16, 1) == [
        "the 3 training texts are 2 distinct ones, which are drawn once; 'good' repeats",
        "the 4 test texts are 2 distinct ones, which are drawn once; 'fine ' repeats",
        "1 test text with invisible characters or white space around them, as 'fine '; "
        '"invisible: strip" removes these',
        "Negative has 1 training text, so every seed has the same demonstrations of it",
        "Positive has 1 training text, so every seed has the same demonstrations of it",
        "16 test texts are asked for (test_examples), but there are 2, so every seed takes all",
    ]


def test_overlaps_contradictions_and_single_classes_are_counted() -> None:
    texts = texts_of(
        [("good", 1), ("bad", 0), ("flat jokes", 0), ("flat jokes", 1), ("songs", 1)],
        [("good ", 1), ("new", 1)],
    )
    assert remarks(texts, WORDS, 1, 2, 1) == [
        "1 training text of 5 is among the test texts, as 'good'; no test text is among "
        'its own demonstrations, and "repeated: drop" leaves them out',
        "the 5 training texts are 4 distinct ones, which are drawn once; 'flat jokes' repeats",
        "2 training texts stand there with two labels, as 'flat jokes'; one of them counts "
        'in a draw, and "repeated: drop" leaves them out',
        "1 test text with invisible characters or white space around them, as 'good '; "
        '"invisible: strip" removes these',
        "all test texts have the label Positive",
    ]


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
