"""Random label words: drawn by name, seed and task, one token each, and never of the task."""

import pytest

from anchorflow.config.errors import InputError
from anchorflow.prepare.label_words import WORDS, drawn_label_words, word_tokens, words_in_order
from anchorflow.prepare.locating import Tokenizer
from anchorflow.prepare.template import Template
from stub_tokenizers import StubEncoding, StubTokenizer

TEMPLATE = Template.parse("Review: {text}\nSentiment:{label}")
OWN = [" Negative", " Positive"]
CELL = "reviews+random"


class Known:
    """One token for each known word with its blank; single letters, or one unknown token, else."""

    def __init__(self, *known: str, unknown: bool = False) -> None:
        self._words = StubTokenizer(r" ?[^ \n]+|\n")
        self._ids = {f" {word}": 100_000 + k for k, word in enumerate(known)}
        self._unknown = unknown

    def get_added_tokens_decoder(self) -> dict[int, object]:
        return {}

    def encode(self, text: str, /) -> StubEncoding:
        ids, offsets = [], []
        for first, last in self._words.encode(text).offsets:
            word = text[first:last]
            if word in self._ids or self._unknown:
                ids.append(self._ids.get(word, 1))
                offsets.append((first, last))
            else:
                ids += map(ord, word)
                offsets += [(k, k + 1) for k in range(first, last)]
        return StubEncoding(ids, offsets)


def drawn(tokenizer: Tokenizer, cell: str = CELL, seed: int = 0) -> list[str]:
    return drawn_label_words(cell, seed, tokenizer, TEMPLATE, OWN, "tiny")


def test_there_are_two_hundred_words_which_differ() -> None:
    assert len(WORDS) == len({*WORDS}) == 200
    assert all(word.islower() and word.isascii() for word in WORDS)


def test_every_seed_task_and_name_is_a_draw_of_its_own_and_always_the_same() -> None:
    tokenizer = Known(*(word.capitalize() for word in WORDS))
    cells = [(CELL, 0), (CELL, 1), ("reviews+again", 0), ("news+random", 0)]
    found = [tuple(drawn(tokenizer, *cell)) for cell in cells]
    assert len({*found}) == 4
    assert [tuple(drawn(tokenizer, *cell)) for cell in cells] == found
    assert found[0] == (" Snake", " Branch")  # what a run had before, it has again


def test_words_are_written_as_the_own_ones_and_are_none_of_them() -> None:
    assert {*words_in_order(CELL, 0, OWN)} == {f" {word.capitalize()}" for word in WORDS}
    assert {*words_in_order(CELL, 0, ["no", "Yes"])} == {*WORDS}
    own = [" House", " Boat"]
    assert len(found := words_in_order(CELL, 0, own)) == 198
    assert not {*found} & {*own}


def test_only_words_of_one_token_are_drawn_so_models_that_know_the_same_have_the_same() -> None:
    first, second, third, *_ = (word.strip() for word in words_in_order(CELL, 0, OWN))
    assert drawn(Known(first, second, third)) == [f" {first}", f" {second}"]
    partly = Known(first, third)
    assert drawn(partly) == [f" {first}", f" {third}"]
    tokens = word_tokens(CELL, partly, TEMPLATE, drawn(partly), "tiny")
    assert tokens == [[100_000], [100_001]]


@pytest.mark.parametrize("unknown", [False, True])
def test_a_vocabulary_with_too_few_of_the_words_is_told(unknown: bool) -> None:
    # One word is known; all others are spelled out, or are a single token that they share.
    with pytest.raises(
        InputError, match=r"^tasks.reviews.random_words: 2 words .* of the 200 .* 1 are .*; leave"
    ):
        drawn(Known("Apple", unknown=unknown))


def test_a_single_word_that_is_unknown_is_not_drawn() -> None:
    first, *others = (word.strip() for word in words_in_order(CELL, 0, OWN))
    assert drawn(Known(*others, unknown=True)) == [f" {word}" for word in others[:2]]
    assert drawn(Known(first, *others, unknown=True))[0] == f" {first}"
