"""Tokenizers are read once, as their files are now."""

from pathlib import Path

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from anchorflow.store.shared_tokenizer import read_tokenizer


def saved(path: Path, *words: str) -> None:
    Tokenizer(WordLevel({word: number for number, word in enumerate(words)})).save(str(path))


def test_a_file_is_read_again_only_if_it_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    saved(path, "one")
    first = read_tokenizer(path)
    assert read_tokenizer(tmp_path / "." / "tokenizer.json") is first
    saved(path, "other")
    assert read_tokenizer(path).get_vocab() == {"other": 0}
    path.write_text("{", encoding="utf-8")
    with pytest.raises(Exception, match="EOF"):
        read_tokenizer(path)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        read_tokenizer(path)
