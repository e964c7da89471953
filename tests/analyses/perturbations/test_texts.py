"""Perturbed texts worked out by hand from given draws, and what holds of them whatever is drawn."""

import string
from collections import Counter
from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest

from anchorflow.analyses.perturbations import PERTURBED_TEXTS, RARE_WORDS
from anchorflow.analyses.perturbations.texts import (
    NEIGHBORS,
    mistyped,
    perturb_texts,
    perturbed_samples,
    recased,
    reordered,
    with_rare_words,
)
from anchorflow.config.text_fields import FIELD_SEPARATOR
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.samples import SAMPLES

KINDS = ("typos", "word_order", "case", "rare_words")
RATES = {"typo_rate": 0.3, "case_rate": 0.5}
TEXTS = [
    "A gorgeous, witty film;  don't miss it.",
    "I",
    "3 ½ stars — naïve, STRAẞE ﬁne\t?! 电影",
    FIELD_SEPARATOR.join(["The bottle fell.", "x", "It broke, it did."]),
]
HIT, MISS = 0.1, 0.9  # draws below and above a rate of a half
# Which of the errors doubled, neighboring, missing, transposed, where all four are possible.
DOUBLED, NEIGHBORING, MISSING, TRANSPOSED = 0.0, 0.3, 0.6, 0.9


def draws(length: int, at: dict[int, tuple[float, float]]) -> np.ndarray:
    """Draws of :func:`mistyped` that hit some places only, with an error and a key each."""
    rows = np.full((length, 3), MISS)
    for place, drawn in at.items():
        rows[place] = HIT, *drawn
    return rows


def samples_of(texts: Sequence[str], examples: Sequence[int]) -> pl.DataFrame:
    shown = {
        "demonstration_rows": [4, 2],
        "demonstration_texts": ["some text", "another"],
        "demonstration_labels": [0, 1],
    }
    rows = [
        {"task": "mine", "seed": 3, "demonstrations": "fixed", "example": example, "text": text}
        | {"label": example % 2, **shown}
        for example, text in zip(examples, texts, strict=True)
    ]
    return pl.DataFrame(rows, schema=frame_schema(SAMPLES))


def rare(**words: str | None) -> pl.DataFrame:
    rows = [("mine", word, 3, other, 1, 0.5) for word, other in words.items()]
    return pl.DataFrame(rows, schema=frame_schema(RARE_WORDS), orient="row")


def test_neighboring_keys_touch_on_a_keyboard() -> None:
    assert NEIGHBORS["s"] == "adewxz"
    assert NEIGHBORS["q"] == "aw"
    assert NEIGHBORS["m"] == "jkn"
    assert NEIGHBORS["p"] == "lo"
    assert sorted(NEIGHBORS) == sorted(string.ascii_lowercase)
    assert all(a in NEIGHBORS[b] for a in NEIGHBORS for b in NEIGHBORS[a])


def test_a_hit_letter_gets_an_error_that_is_possible_there() -> None:
    # The last letter of a word has no next one, so the errors before are a third each.
    for which, key, expected in (
        (DOUBLED, 0.0, "filmm, now"),
        (NEIGHBORING, 0.0, "filj, now"),
        (NEIGHBORING, 0.99, "filn, now"),
        (MISSING, 0.0, "fil, now"),
    ):
        assert mistyped("film, now", 0.5, draws(9, {3: (which * 4 / 3, key)})) == expected
    # Transposed letters are both done with.
    at = {1: (TRANSPOSED, 0.0), 2: (DOUBLED, 0.0), 3: (DOUBLED, 0.0)}
    assert mistyped("film", 0.5, draws(4, at)) == "flimm"
    for text, place, which, key, expected in (
        # The first letter of a word can't be missing: doubled, neighboring, transposed.
        ("to", 0, 0.99, 0.0, "ot"),
        ("to", 0, 0.6, 0.0, "fo"),
        # A letter is not transposed with its like, and one by itself is doubled or hits a neighbor.
        ("oo", 0, 0.99, 0.99, "po"),
        ("I", 0, 0.0, 0.0, "II"),
        ("I", 0, 0.99, 0.0, "J"),
        # No key of it: doubled, or missing within a word.
        ("né", 1, 0.0, 0.0, "néé"),
        ("né", 1, 0.99, 0.0, "n"),
        # What is no letter stays.
        ("7, ", 0, 0.0, 0.0, "7, "),
        ("7, ", 1, 0.0, 0.0, "7, "),
    ):
        assert mistyped(text, 0.5, draws(len(text), {place: (which, key)})) == expected


def test_words_are_moved_recased_and_replaced() -> None:
    # Punctuation goes with its word, and blanks stay.
    assert reordered(" a  witty, film.\n", [2, 0, 1]) == " film.  a witty,\n"
    drawn = np.array([HIT, MISS, HIT, HIT, HIT, MISS])  # ß has no other case
    assert recased("abC1ßd", 0.5, drawn) == "Abc1ßd"
    words = {"film": "talkie", "film's": "none", "good": "stellar"}
    found = with_rare_words("FILM, Film or film? The film's good3 goods are good.", words)
    assert found == "TALKIE, Talkie or talkie? The film's good3 goods are stellar."


@pytest.mark.parametrize(("kind", "key"), [("typos", "typo_rate"), ("case", "case_rate")])
def test_a_rate_of_zero_changes_nothing_and_one_of_one_something(kind: str, key: str) -> None:
    samples = samples_of(TEXTS, range(len(TEXTS)))
    none = perturb_texts(samples, {"kinds": [kind], key: 0}, rare())
    assert none["text"].to_list() == TEXTS
    assert none["changed"].to_list() == [0] * len(TEXTS)
    whole = perturb_texts(samples, {"kinds": [kind], key: 1}, rare())
    assert all(a != b for a, b in zip(whole["text"], TEXTS, strict=True))


def test_word_order_keeps_the_words_of_every_field() -> None:
    texts = [f"{text} and so on it goes" for text in TEXTS]
    moved = perturb_texts(samples_of(texts, range(len(texts))), {"kinds": ["word_order"]}, rare())
    assert moved["text"].to_list() != texts
    for before, after in zip(texts, moved["text"], strict=True):
        fields = (before.split(FIELD_SEPARATOR), after.split(FIELD_SEPARATOR))
        for own, other in zip(*fields, strict=True):
            assert Counter(own.split()) == Counter(other.split())


@pytest.mark.parametrize("kind", KINDS)
def test_no_field_becomes_empty_and_no_word_is_lost_whatever_is_drawn(kind: str) -> None:
    spec = {"kinds": [kind], "typo_rate": 0.9, "case_rate": 0.9}
    rows = list(range(50))
    for text in TEXTS:
        found = perturb_texts(samples_of([text] * 50, rows), spec, rare(film="talkie"))
        assert set(found["words"]) == {len(text.split())}
        for perturbed in found["text"]:
            parts = perturbed.split(FIELD_SEPARATOR)
            assert len(parts) == len(text.split(FIELD_SEPARATOR))
            assert all(part.strip() for part in parts)


def test_a_text_s_perturbation_depends_neither_on_other_texts_nor_on_other_kinds() -> None:
    samples = samples_of(TEXTS, [5, 1, 8, 2])
    whole = perturb_texts(samples, {"kinds": list(KINDS), **RATES}, rare(film="talkie"))
    assert whole.schema == frame_schema(PERTURBED_TEXTS)
    for kind in KINDS:
        for place, example in enumerate([5, 1, 8, 2]):
            one, spec = samples[place : place + 1], {"kinds": [kind], **RATES}
            alone = perturb_texts(one, spec, rare(film="talkie"))
            assert alone.equals(whole.filter(perturbation=kind, example=example))


def test_seeds_and_test_texts_have_draws_of_their_own() -> None:
    first = samples_of([TEXTS[0]] * 2, [0, 1])
    spec = {"kinds": ["typos"], "typo_rate": 0.5}
    texts = perturb_texts(first, spec, rare())["text"].to_list()
    again = perturb_texts(first.with_columns(seed=pl.lit(4, pl.Int64)), spec, rare())["text"]
    assert len({*texts, *again}) == 4


def test_changed_words_are_counted_in_their_places() -> None:
    samples = samples_of(["a film is a film", "the story"], [0, 1])
    words = rare(film="talkie", story=None)
    found = perturb_texts(samples, {"kinds": ["rare_words"]}, words)
    assert found["text"].to_list() == ["a talkie is a talkie", "the story"]
    assert found.select("words", "changed").rows() == [(5, 2), (2, 0)]


def test_only_the_test_text_of_a_sample_is_perturbed() -> None:
    samples = samples_of(["one film", "two films"], [6, 4])
    texts = perturb_texts(samples, {"kinds": ["case", "rare_words"], "case_rate": 1}, rare(two="x"))
    found = perturbed_samples(samples, texts)
    assert found.schema == frame_schema(SAMPLES)
    assert found.select("demonstrations", "example", "text").rows() == [
        ("case", 6, "ONE FILM"),
        ("case", 4, "TWO FILMS"),
        ("rare_words", 6, "one film"),
        ("rare_words", 4, "x films"),
    ]
    rest = [name for name in samples.columns if name not in ("text", "demonstrations")]
    assert found.select(rest).equals(pl.concat([samples, samples]).select(rest))
