"""Label words: their tokens are those of demonstrations, and words that begin alike are refused."""

import json

import polars as pl
import pytest

from anchorflow.config.errors import InputError
from anchorflow.model.tokenizer import token_groups
from anchorflow.prepare.label_words import (
    WORDS,
    drawn_label_words,
    label_tokens,
    taken_together,
    with_distinct_labels,
    word_tokens,
    words_in_order,
)
from anchorflow.prepare.prompts import build_prompts
from anchorflow.prepare.template import Template, Tokenizer, build_prompt
from review_prompts import LABELS, MAKERS, SPACED, TEMPLATE, samples, trained
from stub_tokenizers import StubEncoding, StubTokenizer


def test_all_label_words_that_begin_alike_are_named_with_a_line_to_paste() -> None:
    words = [" Net rise", " Fire place", " Entity", " Net fall", " Fire work", " Fire wall"]
    with pytest.raises(InputError) as error:
        label_tokens("trec", SPACED, TEMPLATE, words, "tiny")
    assert str(error.value) == (
        "tasks.trec.labels: for model tiny, label words begin with the same token: "
        '"Net rise", "Net fall"; "Fire place", "Fire work", "Fire wall"; '
        'write, for example, labels: [" rise", " place", " Entity", " fall", " work", " wall"], '
        'with what the data call them under values, or set "scoring: whole_word".'
    )


@pytest.mark.parametrize(
    ("pattern", "offered"),
    [(r" [A-Z]|(?s:.)", [" A", " B", " C"]), (r" |(?s:[^ ])", None)],  # or every word begins alike
)
def test_letters_are_offered_where_words_differ_within_a_token(
    pattern: str, offered: list[str] | None
) -> None:
    words = [" Entity", " Person", " Personal"]
    with pytest.raises(InputError) as error:
        label_tokens("trec", StubTokenizer(pattern), TEMPLATE, words, "m")
    assert ("for example" in str(error.value)) == (offered is not None)
    if offered:
        assert f"labels: {json.dumps(offered)}, with" in str(error.value)


def test_whole_words_may_begin_alike_and_remain_as_they_are() -> None:
    words = [" Fire place", " Water", " Fire work"]
    prompts = build_prompts(
        samples(["one"]), SPACED, TEMPLATE, words, "tiny", 1000, whole_words=True
    )
    fire, place, water, work = (sum(map(ord, w)) for w in (" Fire", " place", " Water", " work"))
    assert prompts["word_tokens"].to_list() == [[[fire, place], [water], [fire, work]]]
    assert prompts["label_tokens"].to_list() == [[fire, water, fire]]
    assert token_groups([fire, water, fire]) == [0, 1, 0]


def test_an_analysis_of_one_token_takes_labels_that_share_it_as_the_first_of_them() -> None:
    prompts = pl.DataFrame(
        {
            "label": [2, 1, 3],
            "demonstration_labels": [[3, 0, 2, 1]] * 3,
            "label_tokens": [[7, 8, 7, 9]] * 3,
        },
        schema_overrides={"label": pl.Int32, "demonstration_labels": pl.List(pl.Int32)},
    )
    together = taken_together(prompts)
    assert together["label"].to_list() == [0, 1, 3]
    assert together["demonstration_labels"].to_list() == [[3, 0, 0, 1]] * 3
    assert together.schema == prompts.schema


def test_of_whole_words_what_all_begin_with_is_template_though_some_still_begin_alike() -> None:
    words = [" the fire place", " the fire work", " the sea"]
    template, rest = with_distinct_labels("reviews", SPACED, TEMPLATE, words, "tiny", True)
    assert template == Template.parse("Review: {text}\nSentiment: the{label}")
    assert rest == [" fire place", " fire work", " sea"]


def test_what_all_label_words_begin_with_belongs_to_the_template() -> None:
    very = [" very bad", " very good"]
    template, words = with_distinct_labels("reviews", SPACED, TEMPLATE, very, "tiny")
    assert template == Template.parse("Review: {text}\nSentiment: very{label}")
    assert words == [" bad", " good"]
    # In full: [Review][:][ y][\n][Sentiment][:][ very][ good][\n] and the query of 7 tokens.
    prompt = build_prompt(SPACED, template, [("y", " good")], "z")
    assert prompt.label_positions == [7]
    assert prompt.label_ends == [8]
    assert prompt.target_position == 15
    assert prompt.token_ids[15] == prompt.token_ids[6] == sum(map(ord, " very"))
    plain = build_prompt(SPACED, TEMPLATE, [("y", " very good")], "z")
    assert prompt.token_ids[:-1] == plain.token_ids


def test_label_words_that_differ_in_their_first_tokens_are_left_alone() -> None:
    for words in ([" very bad", " good"], [" bad", " good"]):
        found = with_distinct_labels("reviews", SPACED, TEMPLATE, words, "tiny")
        assert found == (TEMPLATE, words)


CUT = StubTokenizer(r" very(?= )| ?\w|\s|.")  # " very" is two tokens at the end of a prompt
ALIKE = "^tasks.trec.label_words.symbols: for model m, label words begin with the same token"


@pytest.mark.parametrize(
    ("tokenizer", "words", "whole_words", "sentence"),
    [
        # Not all of them share it.
        (SPACED, [" very bad", " very good", " fine"], False, f'{ALIKE}: "very bad", "very good"'),
        (SPACED, [" very", " very good"], False, ALIKE),  # nothing remains of the first one
        (SPACED, [" good one", " good one"], False, ALIKE),
        (CUT, [" very b", " very g"], False, ALIKE),
        (CUT, [" very b", " very g"], True, "all label words begin with the same token, which"),
        (SPACED, [" very", " very good"], True, 'begins with .* in "very good" and "very", so'),
    ],
)
def test_label_words_that_no_template_tells_apart_are_refused(
    tokenizer: StubTokenizer, words: list[str], whole_words: bool, sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        with_distinct_labels("trec+symbols", tokenizer, TEMPLATE, words, "m", whole_words)


def test_first_tokens_of_label_words_are_in_label_order() -> None:
    characters = StubTokenizer(r" [A-Z]|(?s:.)")
    words = [" Negative", " Positive", " Mixed"]
    expected = [ord(" ") + ord(letter) for letter in "NPM"]
    assert label_tokens("reviews", characters, TEMPLATE, words, "tiny") == expected


@pytest.mark.parametrize(
    ("words", "warned"), [([" Bad.", " Good"], True), ([" Bad", " Good"], False)]
)
def test_a_label_word_whose_last_token_takes_in_the_newline_is_warned_of(
    words: list[str], warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    joined = StubTokenizer(r" \w+|\.\n|(?s:.)")
    build_prompts(samples(["one"]), joined, TEMPLATE, words, "tiny", 1000)
    told = (
        'for model tiny, the tokens of "Bad." depend on the text after it, and so does its score '
        "as a whole word; a label word that does not end with punctuation avoids it."
    )
    assert (told in caplog.text) == warned
    assert "Good" not in caplog.text


@pytest.mark.parametrize("name", MAKERS)
def test_tokens_of_a_label_word_are_those_of_every_demonstration_of_it(name: str) -> None:
    tokenizer = trained(name)
    words = [" Negative reviews", " Positive answers"]
    found = word_tokens("reviews", tokenizer, TEMPLATE, words, "tiny")
    for text in ("a fine film", "dull\n"):
        prompt = build_prompt(tokenizer, TEMPLATE, [(text, word) for word in words], text)
        spans = zip(prompt.label_positions, prompt.label_ends, strict=True)
        assert [prompt.token_ids[first:end] for first, end in spans] == found
    for tokens, word in zip(found, words, strict=True):
        assert len(tokens) > 1
        assert tokenizer.decode(tokens).strip() == word.strip()


@pytest.mark.parametrize("pattern", [r":[^\n]*|[^\n:]+|\n", r"(?s)Sentiment:.|."])
def test_a_label_word_merged_with_what_precedes_it_is_refused(pattern: str) -> None:
    with pytest.raises(
        InputError, match=r"^tasks.reviews.labels: .*' Negative'.*; begin it with a space"
    ):
        label_tokens("reviews", StubTokenizer(pattern), TEMPLATE, LABELS, "tiny")


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
