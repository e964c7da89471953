"""What stays open: the newest few tokenizers, as their files are, and a model as it was opened."""

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from anchorflow.store import opened


@pytest.fixture(autouse=True)
def nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened, "_opened", {})
    monkeypatch.setattr(opened, "_models", {})


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


@pytest.fixture
def card(tmp_path: Path) -> Path:
    path = tmp_path / "model.json"
    path.write_text("{}", encoding="utf-8")
    return path


def test_models_are_kept_until_they_are_given_up(card: Path) -> None:
    model, other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    assert not opened.keeps_models()
    assert opened.kept_model(card, "cuda") is None
    opened.keep_model(card, "cuda", model)
    opened.keep_model(card, "auto", other)
    assert opened.kept_model(card, "cuda") is opened.kept_model(card, "cuda") is model
    assert opened.kept_model(card, "auto") is other
    assert opened.keeps_models()
    assert opened.give_up_models(besides=model)
    assert opened.kept_model(card, "cuda") is model
    assert opened.kept_model(card, "auto") is None
    assert not opened.give_up_models(besides=model)
    assert opened.give_up_models()
    assert not opened.keeps_models()


def test_a_model_whose_card_or_weights_have_changed_is_given_up(card: Path) -> None:
    model = torch.nn.Linear(2, 2)
    opened.keep_model(card, "cuda", model)
    card.write_text("{ }", encoding="utf-8")
    assert opened.kept_model(card, "cuda") is None
    opened.keep_model(card, "cuda", model)
    with torch.no_grad():
        model.bias.mul_(1)
    assert not opened.keeps_models()
    assert opened.kept_model(card, "cuda") is None


@pytest.mark.parametrize(
    ("wish", "on", "expected"),
    [
        ("cuda", "cuda", True),
        ("auto", "cuda", True),
        ("auto", "cpu", False),
        ("auto", None, True),  # the one who asks can't know
        ("cpu", None, False),
        ("spread", "cuda", True),
    ],
)
def test_models_stay_open_on_gpus(wish: str, on: str | None, expected: bool) -> None:
    assert opened.stays_open(wish, on) is expected
