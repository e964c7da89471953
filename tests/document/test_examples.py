"""Every example of Python in the documentation is run by a test: here, or on the page's test."""

import hashlib
from pathlib import Path

import polars as pl
import pytest
from datasets import Dataset, DatasetDict

from checkout import ROOT
from documentation import python_examples, run_examples

# Pages with examples, and where their tests are.
TESTS = {
    "README.md": "tests/test_classifier.py",
    "docs/how_to/papers_data.md": "tests/document/test_examples.py",
    "docs/how_to/query.md": "tests/whole_run/test_data_dictionary.py",
    "docs/reference/python.md": "tests/test_classifier.py",
    "docs/tutorials/own_texts.md": "tests/whole_run/test_python.py",
}


def test_every_page_with_an_example_has_its_test() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    names = (page.relative_to(ROOT).as_posix() for page in pages)
    assert {name for name in names if python_examples(name)} == TESTS.keys()
    for page, test in TESTS.items():
        source = (ROOT / test).read_text(encoding="utf-8")
        assert f'_examples("{page}")' in source  # of python_examples or another reader


def test_a_file_of_the_papers_texts_is_made_and_its_sum_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data" / "published").mkdir(parents=True)
    texts = {"text": ["How far is it?", "Who?"], "coarse_label": [5, 3], "fine_label": [1, 2]}
    of_hub = DatasetDict(test=Dataset.from_dict(texts))
    monkeypatch.setattr("datasets.load_dataset", lambda name, revision: of_hub)
    the_sum, file = python_examples("docs/how_to/papers_data.md")
    run_examples(file, the_sum)
    rows = pl.read_parquet("data/published/trec_test.parquet")
    assert rows.to_dict(as_series=False) == {"text": texts["text"], "label": [5, 3]}
    wanted = hashlib.sha256(b"5\tHow far is it?\n3\tWho?\n").hexdigest()
    assert capsys.readouterr().out.splitlines()[-1] == wanted
