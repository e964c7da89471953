"""Tokenizers that stay open for a run: the newest few, as their files are."""

from pathlib import Path

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from anchorflow.store import opened


@pytest.fixture(autouse=True)
def nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened, "_opened", {})


def saved(path: Path, word: str) -> Path:
    Tokenizer(WordLevel({word: 0}, unk_token=word)).save(str(path))
    return path


def test_a_file_is_opened_once_and_anew_after_it_has_changed(tmp_path: Path) -> None:
    path = saved(tmp_path / "tokenizer.json", "one")
    assert opened.opened(path) is None
    opened.open_once(path)
    first = opened.opened(path)
    opened.open_once(path)
    assert opened.opened(path) is first
    assert opened.opened(tmp_path / "." / "tokenizer.json") is first
    saved(path, "other")
    assert opened.opened(path) is None
    opened.open_once(path)
    assert opened.opened(path).get_vocab() == {"other": 0}


def test_the_oldest_makes_room(tmp_path: Path) -> None:
    paths = [saved(tmp_path / f"{number}.json", "one") for number in range(opened.MOST + 1)]
    for path in paths:
        opened.open_once(path)
    assert [opened.opened(path) is None for path in paths] == [True] + [False] * opened.MOST
