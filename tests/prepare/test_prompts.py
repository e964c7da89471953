"""Prompts: one row per sample, with the tokens of its label words."""

import time

import polars as pl
import pytest

from anchorflow.analyses.isolation.measure import Setting, isolated_positions
from anchorflow.config.errors import InputError
from anchorflow.prepare.prompts import build_prompts
from anchorflow.prepare.template import Template
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.prompts import PROMPTS
from review_prompts import LABELS, SPACED, TEMPLATE, samples, trained
from stub_tokenizers import StubTokenizer

WORD_BY_WORD = StubTokenizer(r"[^ \n]+|\n")


def test_prompts_with_other_words_differ_in_the_label_tokens_alone() -> None:
    drawn = samples(["one", "two words"])
    own = build_prompts(drawn, WORD_BY_WORD, TEMPLATE, LABELS, "tiny", 100)
    other = build_prompts(
        drawn, WORD_BY_WORD, TEMPLATE, LABELS[::-1], "tiny", 100, "reviews+swapped"
    )
    assert set(other["task"]) == {"reviews+swapped"}
    assert other["label_tokens"][0].to_list() == own["label_tokens"][0].to_list()[::-1]
    replaced = ["task", "token_ids", "label_tokens", "word_tokens"]
    assert other.drop(replaced).equals(own.drop(replaced))
    for mine, theirs in zip(own.iter_rows(named=True), other.iter_rows(named=True), strict=True):
        pairs = zip(mine["token_ids"], theirs["token_ids"], strict=True)
        assert [t for t, (a, b) in enumerate(pairs) if a != b] == mine["label_positions"]
        setting = Setting("mask", "random", 0, "first", 1)
        shared = mine["query_start"]
        drawn_here, drawn_there = (isolated_positions(setting, p, shared) for p in (mine, theirs))
        assert drawn_here == drawn_there


def test_prompts_end_with_what_their_label_words_share() -> None:
    drawn = samples(["one", "two words"])
    prompts = build_prompts(drawn, SPACED, TEMPLATE, [" very bad", " very good"], "tiny", 1000)
    plain = build_prompts(drawn, SPACED, TEMPLATE, [" bad", " good"], "tiny", 1000)
    for own, without in zip(
        prompts.iter_rows(named=True), plain.iter_rows(named=True), strict=True
    ):
        shown = len(own["demonstration_labels"])
        assert own["tokens"] == without["tokens"] + shown + 1
        assert own["label_tokens"] == without["label_tokens"]
        assert own["token_ids"][own["target_position"]] == sum(map(ord, " very"))
        assert [own["token_ids"][t] for t in own["label_positions"]] == [
            own["label_tokens"][label] for label in own["demonstration_labels"]
        ]


def test_whole_label_words_are_all_their_tokens_after_what_all_begin_with() -> None:
    words = [" very bad film", " very good"]
    prompts = build_prompts(samples(["one"]), SPACED, TEMPLATE, words, "tiny", 1000)
    bad, film, good = (sum(map(ord, word)) for word in (" bad", " film", " good"))
    assert prompts["word_tokens"].to_list() == [[[bad, film], [good]]]
    assert prompts["label_tokens"].to_list() == [[bad, good]]
    assert prompts["context"].to_list() == [1000]


def test_prompts_become_rows_in_the_samples_order() -> None:
    frame = build_prompts(
        samples(["one", "two words"]), WORD_BY_WORD, TEMPLATE, LABELS, "tiny", 100
    )
    assert frame.schema == frame_schema(PROMPTS)
    assert frame["example"].to_list() == [10, 11]
    assert frame["tokens"].to_list() == [16, 17]
    assert frame["skipped"].to_list() == [None, None]
    first = frame.row(0, named=True)
    assert first["label_positions"] == [4, 10]
    assert first["demonstration_labels"] == [0, 1]
    assert [first["token_ids"][p] for p in first["label_positions"]] == first["label_tokens"]
    assert (first["model"], first["task"], first["seed"]) == ("tiny", "reviews", 4)
    assert (first["demonstrations"], first["label"]) == ("fixed", 1)


def test_a_prompt_longer_than_the_context_is_kept_whole_and_marked() -> None:
    frame = build_prompts(samples(["one", "two words"]), WORD_BY_WORD, TEMPLATE, LABELS, "tiny", 16)
    assert frame["skipped"].to_list() == [None, "17 tokens exceed the context of 16"]
    assert frame["token_ids"].list.len().to_list() == [16, 17]


def test_a_label_word_merged_in_one_prompt_alone_is_told_with_task_and_text() -> None:
    template = Template.parse("{text}={label}")
    sampled = samples(["one"]).with_columns(demonstration_texts=pl.Series([["dull", "q"]]))
    said = (
        "^tasks.reviews.labels: for model m and test text 10, the label word 'yes' is merged with"
    )
    with pytest.raises(InputError, match=said):
        build_prompts(sampled, StubTokenizer(r"(?s)q=.|."), template, ["no", "yes"], "m", 100)


@pytest.mark.parametrize(("name", "piece"), [("byte-level", "word "), ("sentencepiece BPE", "x")])
def test_a_text_of_many_characters_is_counted_as_too_long_within_seconds(
    name: str, piece: str
) -> None:
    long = piece * (100_000 // len(piece))
    begun = time.monotonic()
    frame = build_prompts(samples([long, "one"]), trained(name), TEMPLATE, LABELS, "tiny", 1024)
    assert time.monotonic() - begun < 10
    assert frame["skipped"].is_not_null().to_list() == [True, False]
    assert frame["tokens"][0] > 1024
