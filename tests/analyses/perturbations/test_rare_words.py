"""Rarer words by hand, from given vectors and counts, and with an encoder."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from anchorflow.analyses.perturbations import RARE_WORDS
from anchorflow.analyses.perturbations.rare_words import (
    choose_rare_words,
    nearest_rarer,
    whole_words,
)
from anchorflow.analyses.perturbations.words import content_words
from anchorflow.config.errors import InputError
from anchorflow.prepare.embeddings import open_encoder
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.texts import TEXTS
from tiny_encoder import plain_embedding, tiny_encoder


class KnownEncoder:
    """An encoder with two dimensions, in which words lie at angles in degrees."""

    def __init__(self, angles: dict[str, float], vocabulary: list[str]) -> None:
        self.angles = angles
        self.tokenizer = self
        self.vocabulary = vocabulary

    def get_vocab(self) -> dict[str, int]:
        return {token: place for place, token in enumerate(self.vocabulary)}

    def encode(self, words: list[str], **_: object) -> np.ndarray:
        angles = np.deg2rad([self.angles[word] for word in words])
        return np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32)


def texts_of(train: list[str], test: list[str]) -> pl.DataFrame:
    rows = [
        {"task": "mine", "split": split, "row": row, "text": text, "label": 0}
        for split, texts in (("train", train), ("test", test))
        for row, text in enumerate(texts)
    ]
    return pl.DataFrame(rows, schema=frame_schema(TEXTS))


def test_content_words_are_words_of_letters_with_a_meaning_of_their_own() -> None:
    text = "The film's 'great' CAST didn’t move us; über-cool, 3rd b2b café\x1fwithout it."
    assert content_words(text) == ["great", "cast", "move", "über", "cool", "café"]


@pytest.mark.parametrize(
    "vocabulary",
    [
        ["[CLS]", "film", "##ing", "The", "an", "3rd", "Movie", "movie"],
        ["<s>", "▁film", "ing", "▁The", "▁an", "▁3rd", "▁Movie", "▁movie"],
        ["<s>", "Ġfilm", "ing", "ĠThe", "Ġan", "Ġ3rd", "ĠMovie", "Ġmovie"],
    ],
)
def test_whole_words_of_a_vocabulary_are_told_from_pieces(vocabulary: list[str]) -> None:
    assert whole_words(vocabulary) == {"film", "movie"}


def test_the_nearest_of_the_rarer_is_found_and_none_is_rarer_than_what_never_occurs() -> None:
    words = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    others = np.array([[1.0, 0.0], [0.8, 0.6], [0.6, 0.8], [0.8, 0.6]])
    nearest, cosine = nearest_rarer(words, np.array([3, 1, 0]), others, np.array([3, 2, 0, 2]))
    assert nearest[:2].tolist() == [1, 2]  # of the equally near ones 1 and 3 the first
    assert cosine.tolist() == pytest.approx([0.8, 0.6, -np.inf])


def test_a_word_s_replacement_is_rarer_in_the_training_texts() -> None:
    train = ["film film film movie movie", "movie talkie the the the story"]
    texts = texts_of(train, ["a film and a talkie", "the unseen story film"])
    angles = {"film": 0, "movie": 10, "talkie": 30, "story": 90, "unseen": 95, "flick": 50}
    angles |= {"opera": 80}
    found = choose_rare_words(texts, KnownEncoder(angles, ["flick", "opera", "##s", "the"]))  # type: ignore[arg-type]
    assert found.schema == frame_schema(RARE_WORDS)
    # film and movie occur three times each, talkie and story once, flick and opera never.
    expected = [
        ("mine", "film", 3, "talkie", 1, np.cos(np.deg2rad(30))),
        ("mine", "story", 1, "opera", 0, np.cos(np.deg2rad(10))),
        ("mine", "talkie", 1, "flick", 0, np.cos(np.deg2rad(20))),
        ("mine", "unseen", 0, None, None, None),
    ]
    for row, wanted in zip(found.rows(), expected, strict=True):
        assert row[:5] == wanted[:5]
        assert row[5] == pytest.approx(wanted[5], abs=1e-6)


def test_other_test_texts_change_no_replacement(tmp_path: Path) -> None:
    folder = tiny_encoder(tmp_path / "encoder")
    encoder = open_encoder(folder, torch.device("cpu"))
    train = ["film film film movie movie", "movie talkie plot plot story"]
    more = choose_rare_words(texts_of(train, ["film", "plot of the story"]), encoder)
    alone = choose_rare_words(texts_of(train, ["plot"]), encoder)
    assert alone.equals(more.filter(word="plot"))
    vectors = {word: plain_embedding(folder, word) for word in ("plot", "talkie", "story")}
    cosine = {word: float(vectors["plot"] @ vectors[word]) for word in ("talkie", "story")}
    assert alone["replacement"].item() == max(cosine, key=lambda word: cosine[word])
    assert alone["similarity"].item() == pytest.approx(max(cosine.values()), abs=1e-5)


def test_texts_without_content_words_have_none_to_replace() -> None:
    found = choose_rare_words(texts_of(["it is"], ["so it is"]), KnownEncoder({}, []))  # type: ignore[arg-type]
    assert found.is_empty()
    assert found.schema == frame_schema(RARE_WORDS)


def test_a_word_without_a_direction_is_told() -> None:
    encoder = KnownEncoder({"film": np.nan, "plot": 0}, [])
    with pytest.raises(InputError, match='it gives the word "film" a vector of length zero'):
        choose_rare_words(texts_of(["film film plot"], ["film"]), encoder)  # type: ignore[arg-type]
