"""Label words: their tokens are those of demonstrations, and words that begin alike are refused."""

import json
from collections.abc import Sequence

import polars as pl
import pytest

from anchorflow.config.errors import InputError
from anchorflow.model.tokenizer import token_groups
from anchorflow.prepare.label_words import (
    WORDS,
    drawn_label_words,
    taken_together,
    with_distinct_labels,
    word_tokens,
    words_in_order,
)
from anchorflow.prepare.prompts import build_prompts
from anchorflow.prepare.template import Template, Tokenizer, Wording, build_prompt
from review_prompts import LABELS, MAKERS, SPACED, TEMPLATE, samples, trained
from stub_tokenizers import StubEncoding, StubTokenizer


def worded(words: Sequence[str], tokenizer: Tokenizer = SPACED, name: str = "reviews") -> Wording:
    return Wording(name, tokenizer, TEMPLATE, words, "tiny")


ALIKE = r"^tasks\.trec\.labels: for model tiny, label words begin with the same token: "


@pytest.mark.parametrize(
    ("tokenizer", "words", "offered"),
    [
        (
            SPACED,
            [" Net rise", " Fire place", " Entity", " Net fall", " Fire work", " Fire wall"],
            [" rise", " place", " Entity", " fall", " work", " wall"],
        ),
        # Within a token, letters differ, unless every word begins alike.
        (StubTokenizer(r" [A-Z]|(?s:.)"), [" Entity", " Person", " Personal"], [" A", " B", " C"]),
        (StubTokenizer(r" |(?s:[^ ])"), [" Entity", " Person", " Personal"], None),
    ],
)
def test_label_words_that_begin_alike_are_named_with_a_line_to_paste(
    tokenizer: StubTokenizer, words: list[str], offered: list[str] | None
) -> None:
    with pytest.raises(InputError, match=ALIKE) as error:
        word_tokens(worded(words, tokenizer, "trec"))
    said = str(error.value).partition("the same token: ")[2]
    line = f"write, for example, labels: {json.dumps(offered)}, with what the data call them"
    assert (line in said) == ("for example" in said) == (offered is not None)
    assert said.endswith('set "scoring: whole_word".')
    if tokenizer is SPACED:
        groups = '"Net rise", "Net fall"; "Fire place", "Fire work", "Fire wall"; '
        assert said.startswith(groups)


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
    found = with_distinct_labels(worded(words), True)
    assert found.template == Template.parse("Review: {text}\nSentiment: the{label}")
    assert found.labels == [" fire place", " fire work", " sea"]


def test_what_all_label_words_begin_with_belongs_to_the_template() -> None:
    found = with_distinct_labels(worded([" very bad", " very good"]))
    assert found.template == Template.parse("Review: {text}\nSentiment: very{label}")
    assert found.labels == [" bad", " good"]
    # In full: [Review][:][ y][\n][Sentiment][:][ very][ good][\n] and the query of 7 tokens.
    prompt = build_prompt(SPACED, found.template, [("y", " good")], "z")
    assert (prompt.label_positions, prompt.label_ends, prompt.target_position) == ([7], [8], 15)
    assert prompt.token_ids[15] == prompt.token_ids[6] == sum(map(ord, " very"))
    plain = build_prompt(SPACED, TEMPLATE, [("y", " very good")], "z")
    assert prompt.token_ids[:-1] == plain.token_ids


@pytest.mark.parametrize("words", [[" very bad", " good"], [" bad", " good"]])
def test_label_words_that_differ_in_their_first_tokens_are_left_alone(words: list[str]) -> None:
    assert with_distinct_labels(worded(words)) == worded(words)


CUT = StubTokenizer(r" very(?= )| ?\w|\s|.")  # " very" is two tokens at the end of a prompt
SAME = "^tasks.trec.label_words.symbols: for model tiny, label words begin with the same token"


@pytest.mark.parametrize(
    ("tokenizer", "words", "whole_words", "sentence"),
    [
        # Not all of them share it.
        (SPACED, [" very bad", " very good", " fine"], False, f'{SAME}: "very bad", "very good"'),
        (SPACED, [" very", " very good"], False, SAME),  # nothing remains of the first one
        (SPACED, [" good one", " good one"], False, SAME),
        (CUT, [" very b", " very g"], False, SAME),
        (CUT, [" very b", " very g"], True, "all label words begin with the same token, which"),
        (SPACED, [" very", " very good"], True, 'begins with .* in "very good" and "very", so'),
    ],
)
def test_label_words_that_no_template_tells_apart_are_refused(
    tokenizer: StubTokenizer, words: list[str], whole_words: bool, sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        with_distinct_labels(worded(words, tokenizer, "trec+symbols"), whole_words)


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
    found = word_tokens(worded(words, tokenizer))
    for text in ("a fine film", "dull\n"):
        prompt = build_prompt(tokenizer, TEMPLATE, [(text, word) for word in words], text)
        spans = zip(prompt.label_positions, prompt.label_ends, strict=True)
        assert [prompt.token_ids[first:end] for first, end in spans] == found
    for tokens, word in zip(found, words, strict=True):
        assert len(tokens) > 1
        assert tokenizer.decode(tokens).strip() == word.strip()


@pytest.mark.parametrize("pattern", [r":[^\n]*|[^\n:]+|\n", r"(?s)Sentiment:.|."])
def test_a_label_word_merged_with_what_precedes_it_is_refused(pattern: str) -> None:
    said = r"^tasks.reviews.labels: .*' Negative'.*; begin it with a space"
    with pytest.raises(InputError, match=said):
        word_tokens(worded(LABELS, StubTokenizer(pattern)))


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
    return drawn_label_words(worded(LABELS, tokenizer, cell), seed)


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
    assert {*words_in_order(CELL, 0, LABELS)} == {f" {word.capitalize()}" for word in WORDS}
    assert {*words_in_order(CELL, 0, ["no", "Yes"])} == {*WORDS}
    own = [" House", " Boat"]
    assert len(found := words_in_order(CELL, 0, own)) == 198
    assert not {*found} & {*own}


def test_only_words_of_one_token_are_drawn_so_models_that_know_the_same_have_the_same() -> None:
    first, second, third, *_ = (word.strip() for word in words_in_order(CELL, 0, LABELS))
    assert drawn(Known(first, second, third)) == [f" {first}", f" {second}"]
    partly = Known(first, third)
    assert drawn(partly) == [f" {first}", f" {third}"]
    tokens = word_tokens(worded(drawn(partly), partly, CELL))
    assert tokens == [[100_000], [100_001]]


@pytest.mark.parametrize("unknown", [False, True])
def test_a_vocabulary_with_too_few_of_the_words_is_told(unknown: bool) -> None:
    # One word is known; all others are spelled out, or are a single token that they share.
    with pytest.raises(
        InputError, match=r"^tasks.reviews.random_words: 2 words .* of the 200 .* 1 are .*; leave"
    ):
        drawn(Known("Apple", unknown=unknown))


def test_a_single_word_that_is_unknown_is_not_drawn() -> None:
    first, *others = (word.strip() for word in words_in_order(CELL, 0, LABELS))
    assert drawn(Known(*others, unknown=True)) == [f" {word}" for word in others[:2]]
    assert drawn(Known(first, *others, unknown=True))[0] == f" {first}"
