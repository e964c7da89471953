"""Prompts: every position is where construction put it, for any tokenizer and any text."""

import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import (
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from anchorflow.config.errors import InputError
from anchorflow.measure.isolation import Setting, isolated_positions
from anchorflow.prepare.prompts import (
    Prompt,
    Template,
    build_prompt,
    build_prompts,
    instruction_positions,
    label_tokens,
    label_word_positions,
    non_label_positions,
    taken_together,
    token_groups,
    with_distinct_labels,
    word_tokens,
)
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.prompts import PROMPTS
from stub_tokenizers import StubTokenizer

SPACED = StubTokenizer(r" ?\w+|\s|.")


def test_prompts_with_other_words_differ_in_the_label_tokens_alone() -> None:
    tokenizer = StubTokenizer(r"[^ \n]+|\n")
    drawn = samples(["one", "two words"])
    own = build_prompts(drawn, tokenizer, TEMPLATE, LABELS, "tiny", 100)
    other = build_prompts(drawn, tokenizer, TEMPLATE, LABELS[::-1], "tiny", 100, "reviews+swapped")
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


def test_other_words_that_begin_alike_are_told_with_their_key() -> None:
    characters = StubTokenizer("(?s).")
    with pytest.raises(InputError, match=r'^tasks\.trec\.label_words\.symbols: .*"A", "B"'):
        label_tokens("trec+symbols", characters, TEMPLATE, [" A", " B"], "tiny")


TEMPLATE = Template.parse("Review: {text}\nSentiment:{label}")
LABELS = [" Negative", " Positive"]
CORPUS = [
    "Review: a fine film, at last\nSentiment: Positive\n",
    "Review: dull and long\nSentiment: Negative\n",
    "Question: Who was it?\nAnswer Type: Person\n",
    "the film is a film of the year, and it is long: Negative reviews, Positive answers",
] * 5
TEXTS = [
    "a fine film",
    "two\nlines\n\nand more",
    "Review: a film\nSentiment: Positive\nReview: another\nSentiment:",
    "Positive",
    " Negative Positive",
    "{text} and {label} and {",
    "so good 😀👩‍👧 e\u0301\u0323 naïve",
    "\u0301 begins with an accent",
    "  two  blanks   within and after  ",
    "ends with a newline\n",
    "<s> <unk> </s>",
    "a:",
    "\t\r\n",
]


def _byte_level(bos: bool, trim: bool) -> Tokenizer:
    """A byte-level BPE as in GPT-2; ``trim`` leaves blanks out of the offsets, as in GPT-NeoX."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    offsets = processors.ByteLevel(add_prefix_space=False, trim_offsets=trim)
    start = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    tokenizer.post_processor = processors.Sequence([offsets, start]) if bos else offsets
    return tokenizer


def _sentencepiece(model: str) -> Tokenizer:
    """Blanks as "▁" in front of words, and a BOS, as in Llama 2 (BPE) and T5 (Unigram)."""
    specials = ["<s>", "</s>", "<unk>"]
    if model == "bpe":
        tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    else:
        words = ["▁Positive", "▁Negative", "▁fi", "lm", "Review", "Senti", "ment", "▁and"]
        pieces = [(piece, -4.0) for piece in words] + [(c, -9.0) for c in "▁\n:abcdefilmnorstuvw"]
        vocabulary = [*((special, 0.0) for special in specials), *pieces]
        tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=2, byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex("[\n:]"), "isolated"),
            pre_tokenizers.Metaspace(prepend_scheme="first"),
        ]
    )
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="never")
    if model == "bpe":
        trainer = trainers.BpeTrainer(vocab_size=200, special_tokens=specials, show_progress=False)
        tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_special_tokens(specials)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    return tokenizer


def _normalizing(steps: list[normalizers.Normalizer]) -> Tokenizer:
    """A BPE that changes the text first and falls back to bytes, as in Llama 2."""
    specials = ["<s>", "</s>", "<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence(steps)
    trainer = trainers.BpeTrainer(vocab_size=450, special_tokens=specials, show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    return tokenizer


MAKERS: dict[str, Callable[[], Tokenizer]] = {
    "byte-level": lambda: _byte_level(bos=False, trim=False),
    "byte-level with BOS": lambda: _byte_level(bos=True, trim=False),
    "byte-level, offsets without blanks": lambda: _byte_level(bos=False, trim=True),
    "byte-level with BOS, offsets without blanks": lambda: _byte_level(bos=True, trim=True),
    "sentencepiece BPE": lambda: _sentencepiece("bpe"),
    "sentencepiece Unigram": lambda: _sentencepiece("unigram"),
}
NORMALIZING: dict[str, Callable[[], Tokenizer]] = {
    "sentencepiece BPE with NFKC": lambda: _normalizing([normalizers.NFKC()]),
    "blanks replaced before tokenization": lambda: _normalizing(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    ),
}
BYTE_LEVEL = [name for name in MAKERS if name.startswith("byte-level")]


@cache
def trained(name: str) -> Tokenizer:
    return (MAKERS | NORMALIZING)[name]()


@dataclass(frozen=True)
class Segments:
    """Where each piece of a prompt lies in its text, worked out apart from the package."""

    text: str
    labels: list[tuple[int, int]]
    contents: list[tuple[int, int]]  # texts and label words: all that is not template
    starts: list[int]  # of each demonstration and of the query


def segments(demonstrations: Sequence[tuple[str, str]], query: str) -> Segments:
    whole = ""
    found = Segments("", [], [], [])
    for text, word in [*demonstrations, (query, "")]:
        found.starts.append(len(whole))
        whole += "Review: "
        found.contents.append((len(whole), len(whole) + len(text)))
        whole += text + "\nSentiment:"
        if word:
            found.labels.append((len(whole), len(whole) + len(word)))
            found.contents.append(found.labels[-1])
            whole += word + "\n"
    return Segments(whole, found.labels, found.contents, found.starts)


def check_positions(
    tokenizer: Tokenizer, prompt: Prompt, demonstrations: Sequence[tuple[str, str]], query: str
) -> None:
    """Assert what holds for every tokenizer and text."""
    expected = segments(demonstrations, query)
    encoding = tokenizer.encode(expected.text)
    offsets, tokens = encoding.offsets, len(encoding.ids)
    assert prompt.token_ids == encoding.ids
    assert prompt.target_position == tokens - 1

    assert len(prompt.label_positions) == len(demonstrations)
    assert all(a < b for a, b in pairwise(prompt.label_positions))
    for position, (first, last) in zip(prompt.label_positions, expected.labels, strict=True):
        assert first <= offsets[position][0] <= offsets[position][1] <= last
        assert offsets[position - 1][1] <= first
    for position, end, (first, last) in zip(
        prompt.label_positions, prompt.label_ends, expected.labels, strict=True
    ):
        of_word = [t for t, (a, b) in enumerate(offsets) if max(a, first) < min(b, last)]
        assert list(range(position, end)) == of_word

    edges = [*prompt.demonstration_starts, prompt.query_start]
    assert prompt.demonstration_ends == edges[1:]
    assert all(a < b for a, b in pairwise([*edges, tokens]))
    for edge, start in zip(edges, expected.starts, strict=True):
        assert offsets[edge][0] >= start
        assert all(last <= start for _, last in offsets[:edge])
    for position, start, end in zip(prompt.label_positions, edges, edges[1:], strict=False):
        assert start < position < end

    for token, (first, last) in enumerate(offsets):
        holds_content = any(max(first, a) < min(last, b) for a, b in expected.contents)
        assert not (holds_content and token in prompt.format_positions)
        outside = not any(a <= first <= b or a <= last <= b for a, b in expected.contents)
        assert not outside or token in prompt.format_positions


def test_a_template_is_split_at_its_placeholders() -> None:
    text = ("field", "text")
    assert TEMPLATE.pieces == (("template", "Review: "), text, ("template", "\nSentiment:"))
    assert Template.parse("{text} = {label}").pieces == (
        ("template", ""),
        text,
        ("template", " = "),
    )


def test_every_position_of_a_prompt_split_into_words_is_as_worked_out_by_hand() -> None:
    # 0 Review:  1 good  2 \n  3 Sentiment:  4 Positive   5 \n
    # 6 Review:  7 bad   8 it  9 \n         10 Sentiment: 11 Negative  12 \n
    # 13 Review: 14 fine 15 \n 16 Sentiment:
    words = StubTokenizer(r"[^ \n]+|\n")
    prompt = build_prompt(words, TEMPLATE, [("good", " Positive"), ("bad it", " Negative")], "fine")
    assert len(prompt.token_ids) == 17
    assert prompt.label_positions == [4, 11]
    assert prompt.label_ends == [5, 12]
    assert prompt.target_position == 16
    assert prompt.format_positions == [0, 2, 3, 5, 6, 9, 10, 12, 13, 15, 16]
    assert prompt.demonstration_starts == [0, 6]
    assert prompt.demonstration_ends == [6, 13]
    assert prompt.query_start == 13


def test_every_position_of_a_prompt_split_into_characters_is_as_worked_out_by_hand() -> None:
    # Q   x \n A :   y \n  Q     z \n  A  :
    # 0 1 2  3 4 5 6 7  8  9 10 11 12 13 14
    prompt = build_prompt(
        StubTokenizer(r"(?s)."), Template.parse("Q {text}\nA:{label}"), [("x", " y")], "z"
    )
    assert prompt.token_ids == [ord(character) for character in "Q x\nA: y\nQ z\nA:"]
    assert prompt.label_positions == [6]
    assert prompt.label_ends == [8]
    assert label_word_positions(vars(prompt)) == [6, 7]
    assert non_label_positions(vars(prompt)) == [0, 1, 2, 3, 4, 5, 8]
    assert prompt.target_position == 14
    assert prompt.format_positions == [0, 1, 3, 4, 5, 8, 9, 10, 12, 13, 14]
    assert (prompt.demonstration_starts, prompt.demonstration_ends) == ([0], [9])
    assert prompt.query_start == 9


def test_a_bos_shifts_every_position_by_one_and_counts_as_format() -> None:
    words = build_prompt(StubTokenizer(r"[^ \n]+|\n"), TEMPLATE, [("x", " Positive")], "y")
    shifted = build_prompt(
        StubTokenizer(r"[^ \n]+|\n", bos=True), TEMPLATE, [("x", " Positive")], "y"
    )
    assert shifted.label_positions == [p + 1 for p in words.label_positions]
    assert shifted.target_position == words.target_position + 1
    assert shifted.format_positions == [0, *(p + 1 for p in words.format_positions)]
    assert shifted.demonstration_starts == [1]
    assert shifted.query_start == words.query_start + 1


def test_a_template_that_begins_with_the_text_needs_no_start() -> None:
    template = Template.parse("{text} ={label}")
    prompt = build_prompt(StubTokenizer(r"[^ \n]+|\n"), template, [("a b", " c")], "d")
    # 0 a  1 b  2 =  3 c  4 \n  5 d  6 =
    assert prompt.label_positions == [3]
    assert prompt.format_positions == [2, 4, 6]
    assert (prompt.demonstration_starts, prompt.demonstration_ends) == ([0], [5])
    assert (prompt.query_start, prompt.target_position) == (5, 6)


def test_a_prompt_without_demonstrations_is_all_query() -> None:
    prompt = build_prompt(StubTokenizer(r"[^ \n]+|\n"), TEMPLATE, [], "fine")
    assert (prompt.label_positions, prompt.demonstration_starts) == ([], [])
    assert (prompt.query_start, prompt.target_position) == (0, 3)


PAIRS = Template.parse(
    "Premise: {premise}\nHypothesis: {hypothesis}\nAnswer:{label}",
    ("premise", "hypothesis"),
    "Does it follow?",
    "\n\n",
)


@pytest.mark.parametrize("bos", [False, True])
def test_fields_and_instruction_are_where_they_were_worked_out_by_hand(bos: bool) -> None:
    #  0 Does  1 it  2 follow?  3 \n  4 \n
    #  5 Premise:  6 a  7 b  8 \n  9 Hypothesis: 10 c 11 \n 12 Answer: 13 Yes 14 \n 15 \n
    # 16 Premise: 17 d 18 \n 19 Hypothesis: 20 e 21 f 22 \n 23 Answer:
    words = StubTokenizer(r"[^ \n]+|\n", bos)
    prompt = build_prompt(words, PAIRS, [("a b\x1fc", " Yes")], "d\x1fe f")

    def after(*tokens: int) -> list[int]:
        return [token + bos for token in tokens]

    assert len(prompt.token_ids) == 24 + bos
    assert [prompt.instruction_end] == after(3)
    assert instruction_positions(vars(prompt)) == after(0, 1, 2)
    assert prompt.field_names == ["premise", "hypothesis"]
    assert prompt.field_starts == after(6, 10, 17, 20)
    assert prompt.field_ends == after(8, 11, 18, 22)
    assert (prompt.demonstration_starts, prompt.demonstration_ends) == (after(5), after(16))
    assert (prompt.label_positions, prompt.label_ends) == (after(13), after(14))
    assert [prompt.query_start, prompt.target_position] == after(16, 23)
    formats = after(3, 4, 5, 8, 9, 11, 12, 14, 15, 16, 18, 19, 22, 23)
    assert prompt.format_positions == [0] * bos + formats
    assert non_label_positions(vars(prompt)) == after(*range(5, 13), 14, 15)


def test_a_query_merged_with_the_label_word_before_it_is_refused() -> None:
    template = Template.parse("{text}={label}", separator="|")
    with pytest.raises(InputError, match="' c' is merged with the query after it"):
        build_prompt(StubTokenizer(r" c.*|(?s:.)"), template, [("a", " c")], "b")


def test_fields_are_written_in_the_template_s_order_whatever_the_columns_order() -> None:
    template = Template.parse("{b} after {a}:{label}", ("a", "b"))
    prompt = build_prompt(StubTokenizer("(?s)."), template, [("x\x1fyz", " +")], "u\x1fv")
    # y z _ a f t e r _ x : _ +  \n v _ a f t e r _ u :
    # 0 1               9  10 12 13 14             22
    assert "".join(map(chr, prompt.token_ids)) == "yz after x: +\nv after u:"
    assert prompt.field_names == ["b", "a"]
    assert (prompt.field_starts, prompt.field_ends) == ([0, 9, 14, 22], [2, 10, 15, 23])


def test_an_empty_field_is_where_the_next_one_begins() -> None:
    template = Template.parse("P:{p};H:{h};A:{label}", ("p", "h"))
    shown = [("\x1fc", " Y"), ("a\x1f", " N")]
    prompt = build_prompt(StubTokenizer("(?s)."), template, shown, "\x1f")
    #  0 P :  ;  3 H :  c  6 ;  A : _ Y \n, 12 P : a  15 ; H : ; A : _ N \n, 24 P : ; H : ; A 31 :
    assert "".join(map(chr, prompt.token_ids)) == "P:;H:c;A: Y\nP:a;H:;A: N\nP:;H:;A:"
    assert prompt.field_starts == [5, 5, 14, 21, 32, 32]
    assert prompt.field_ends == [5, 6, 15, 21, 32, 32]


def test_a_token_of_two_fields_belongs_to_the_first() -> None:
    template = Template.parse("{a}-{b} ={label}", ("a", "b"))
    prompt = build_prompt(StubTokenizer(r"[^ \n]+|\n"), template, [("x\x1fy z", " +")], "u\x1fv")
    # 0 x-y  1 z  2 =  3 +  4 \n  5 u-v  6 =; after it, the second field of the query is empty
    assert (prompt.field_starts, prompt.field_ends) == ([0, 1, 5, 7], [1, 2, 6, 7])


def test_a_task_with_one_field_may_have_the_character_that_joins_fields() -> None:
    prompt = build_prompt(StubTokenizer("(?s)."), TEMPLATE, [("x\x1fy", " Positive")], "z")
    assert "".join(map(chr, prompt.token_ids)).startswith("Review: x\x1fy\n")
    assert (prompt.field_names, prompt.field_starts[0], prompt.field_ends[0]) == (["text"], 8, 11)
    assert prompt.instruction_end is None
    assert instruction_positions(vars(prompt)) == []


def test_a_text_with_another_number_of_fields_is_an_error() -> None:
    with pytest.raises(ValueError, match="shorter"):
        build_prompt(StubTokenizer("(?s)."), PAIRS, [], "one field")


@pytest.mark.parametrize("name", BYTE_LEVEL)
def test_an_instruction_only_moves_what_follows(name: str) -> None:
    tokenizer = trained(name)
    shown = [("a film", " Positive"), ("dull", " Negative")]
    plain = build_prompt(tokenizer, TEMPLATE, shown, "fine")
    told = replace(TEMPLATE, instruction="a fine film, at last")
    prompt = build_prompt(tokenizer, told, shown, "fine")
    assert prompt.instruction_end is not None
    specials = plain.demonstration_starts[0]
    assert instruction_positions(vars(prompt)) == list(range(specials, prompt.instruction_end))
    by = prompt.demonstration_starts[0] - specials
    assert [token - by for token in prompt.label_positions] == plain.label_positions
    assert [token - by for token in prompt.field_ends] == plain.field_ends
    assert prompt.target_position - by == plain.target_position


FIELD = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x1f"), max_size=20)


@pytest.mark.parametrize("name", MAKERS)
@settings(max_examples=40, deadline=None)
@given(
    fields=st.lists(st.tuples(FIELD, FIELD), min_size=2, max_size=4),
    instruction=FIELD,
    separator=st.sampled_from(["\n", "\n\n", " | ", "\n###\n"]),
)
def test_fields_hold_for_arbitrary_contents(
    name: str, fields: list[tuple[str, str]], instruction: str, separator: str
) -> None:
    tokenizer = trained(name)
    template = replace(PAIRS, instruction=instruction, separator=separator)
    shown = [("\x1f".join(pair), LABELS[i % 2]) for i, pair in enumerate(fields[1:])]
    prompt = build_prompt(tokenizer, template, shown, "\x1f".join(fields[0]))
    whole = instruction + separator if instruction else ""
    spans = []
    for i, (premise, hypothesis) in enumerate([*fields[1:], fields[0]]):
        whole += "Premise: "
        spans.append((len(whole), len(whole) + len(premise)))
        whole += premise + "\nHypothesis: "
        spans.append((len(whole), len(whole) + len(hypothesis)))
        whole += hypothesis + "\nAnswer:"
        if i < len(shown):
            whole += shown[i][1] + separator
    encoding = tokenizer.encode(whole)
    assert prompt.token_ids == encoding.ids
    found = list(zip(prompt.field_starts, prompt.field_ends, strict=True))
    edges = zip(
        [*prompt.demonstration_starts, prompt.query_start],
        [*prompt.label_positions, len(encoding.ids)],
        strict=True,
    )
    for k, (start, end) in enumerate(edges):
        bounds = [start, *(edge for span in found[2 * k : 2 * k + 2] for edge in span), end]
        assert bounds == sorted(bounds)
        for token in range(start, end):
            first, last = encoding.offsets[token]
            held = [
                f for f in (2 * k, 2 * k + 1) if max(first, spans[f][0]) < min(last, spans[f][1])
            ]
            assert not held or found[held[0]][0] <= token < found[held[0]][1]
    told = instruction_positions(vars(prompt))
    assert (prompt.instruction_end is None) == (not instruction)
    assert max(told, default=-1) < prompt.demonstration_starts[0]
    for token, (first, last) in enumerate(encoding.offsets):
        assert not first < min(last, len(instruction)) or token in told


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("text", TEXTS)
def test_no_text_confuses_the_positions(name: str, text: str) -> None:
    tokenizer = trained(name)
    demonstrations = [(text, " Positive"), ("dull", " Negative"), (text, " Negative")]
    prompt = build_prompt(tokenizer, TEMPLATE, demonstrations, text)
    check_positions(tokenizer, prompt, demonstrations, text)


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("text", TEXTS)
def test_label_positions_decode_to_the_start_of_the_label_words(name: str, text: str) -> None:
    tokenizer = trained(name)
    demonstrations = [(text, " Positive"), (text, " Negative")]
    prompt = build_prompt(tokenizer, TEMPLATE, demonstrations, text)
    first = label_tokens("reviews", tokenizer, TEMPLATE, LABELS, "tiny")
    for position, (_, word) in zip(prompt.label_positions, demonstrations, strict=True):
        piece = tokenizer.decode([prompt.token_ids[position]])
        assert piece.strip()
        assert word.strip().startswith(piece.strip())
        assert prompt.token_ids[position] == first[LABELS.index(word)]


@pytest.mark.parametrize("name", BYTE_LEVEL)
@pytest.mark.parametrize("text", TEXTS)
def test_spans_decode_to_whole_demonstrations_and_the_query(name: str, text: str) -> None:
    tokenizer = trained(name)
    demonstrations = [(text, " Positive"), ("dull", " Negative")]
    prompt = build_prompt(tokenizer, TEMPLATE, demonstrations, text)

    def decoded(start: int, end: int) -> str:
        return tokenizer.decode(prompt.token_ids[start:end], skip_special_tokens=False)

    spans = zip(prompt.demonstration_starts, prompt.demonstration_ends, strict=True)
    assert [decoded(*span) for span in spans] == [
        f"Review: {text}\nSentiment: Positive\n",
        "Review: dull\nSentiment: Negative\n",
    ]
    assert decoded(prompt.query_start, len(prompt.token_ids)) == f"Review: {text}\nSentiment:"


@pytest.mark.parametrize("name", BYTE_LEVEL)
def test_format_positions_decode_to_the_template_s_pieces(name: str) -> None:
    tokenizer = trained(name)
    prompt = build_prompt(tokenizer, TEMPLATE, [("a\nfilm  it", " Positive")], "a film")
    formats = [prompt.token_ids[position] for position in prompt.format_positions]
    assert tokenizer.decode(formats) == "Review:\nSentiment:\nReview:\nSentiment:"


@pytest.mark.parametrize("name", MAKERS)
def test_the_target_is_the_last_token_of_the_template(name: str) -> None:
    tokenizer = trained(name)
    prompt = build_prompt(tokenizer, TEMPLATE, [("x", " Positive")], "y")
    assert prompt.target_position == len(prompt.token_ids) - 1
    assert tokenizer.decode([prompt.token_ids[-1]]).endswith(":")


@pytest.mark.parametrize("name", MAKERS)
def test_only_a_bos_precedes_the_first_demonstration(name: str) -> None:
    tokenizer = trained(name)
    prompt = build_prompt(tokenizer, TEMPLATE, [("x", " Positive")], "y")
    bos = tokenizer.encode("").ids
    assert len(bos) == (0 if name in BYTE_LEVEL and "BOS" not in name else 1)
    assert prompt.token_ids[: prompt.demonstration_starts[0]] == bos
    assert prompt.format_positions[: len(bos)] == list(range(len(bos)))


ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)


@pytest.mark.parametrize("name", MAKERS)
@settings(max_examples=60, deadline=None)
@given(texts=st.lists(ANY_TEXT, min_size=2, max_size=4))
def test_positions_hold_for_arbitrary_texts(name: str, texts: list[str]) -> None:
    tokenizer = trained(name)
    demonstrations = [(text, LABELS[i % 2]) for i, text in enumerate(texts[1:])]
    prompt = build_prompt(tokenizer, TEMPLATE, demonstrations, texts[0])
    check_positions(tokenizer, prompt, demonstrations, texts[0])


def test_a_tokenizer_that_ends_prompts_with_a_special_token_is_refused() -> None:
    tokenizer = _byte_level(bos=True, trim=False)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    with pytest.raises(InputError, match="add_eos_token"):
        build_prompt(tokenizer, TEMPLATE, [("x", " Positive")], "y")


def test_a_prompt_that_a_tokenizer_makes_nothing_of_is_refused() -> None:
    with pytest.raises(InputError, match="makes no tokens of 'Review: y"):
        build_prompt(StubTokenizer("never"), TEMPLATE, [], "y")


def test_braces_and_other_people_s_placeholders_in_a_template_are_plain_text() -> None:
    template = Template.parse("{{text}} {0} %s ${x} {{ y }} {% z %} {model}={label}")
    assert [characters for _, characters in template.pieces] == [
        "{",
        "text",
        "} {0} %s ${x} {{ y }} {% z %} {model}=",
    ]
    prompt = build_prompt(StubTokenizer("(?s)."), template, [("{a}", " {b}")], "{label}")
    written = "".join(map(chr, prompt.token_ids))
    middle = "} {0} %s ${x} {{ y }} {% z %} {model}="
    assert written == "{{a}" + middle + " {b}\n{{label}" + middle


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


def test_a_whole_word_that_begins_another_is_refused() -> None:
    words = [" very", " very good"]
    with pytest.raises(InputError, match=r'begins with .* in "very good" and "very", so'):
        word_tokens("reviews", SPACED, TEMPLATE, words, "tiny", whole_words=True)


def test_of_whole_words_what_all_begin_with_is_template_though_some_still_begin_alike() -> None:
    words = [" the fire place", " the fire work", " the sea"]
    template, rest = with_distinct_labels("reviews", SPACED, TEMPLATE, words, "tiny", True)
    assert template == Template.parse("Review: {text}\nSentiment: the{label}")
    assert rest == [" fire place", " fire work", " sea"]
    with pytest.raises(InputError, match="all label words begin with the same token"):
        tokens = StubTokenizer(r" very(?= )| ?\w|\s|.")  # other tokens where a prompt ends
        with_distinct_labels("reviews", tokens, TEMPLATE, [" very b", " very g"], "tiny", True)


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


@pytest.mark.parametrize(
    "words",
    [
        [" very bad", " very good", " fine"],  # not all of them share it
        [" very", " very good"],  # nothing remains of the first one
        [" good one", " good one"],
    ],
)
def test_label_words_of_which_only_some_begin_alike_are_refused(words: list[str]) -> None:
    with pytest.raises(InputError, match="for model tiny, label words begin with the same token"):
        with_distinct_labels("reviews", SPACED, TEMPLATE, words, "tiny")


def test_a_beginning_that_ends_the_query_in_other_tokens_is_refused() -> None:
    # " very" is one token before a blank, and two at the end of a prompt.
    tokenizer = StubTokenizer(r" very(?= )| ?\w|\s|.")
    with pytest.raises(InputError, match="for model tiny, label words begin with the same token"):
        with_distinct_labels("reviews", tokenizer, TEMPLATE, [" very b", " very g"], "tiny")


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


def test_first_tokens_of_label_words_are_in_label_order() -> None:
    characters = StubTokenizer(r" [A-Z]|(?s:.)")
    words = [" Negative", " Positive", " Mixed"]
    expected = [ord(" ") + ord(letter) for letter in "NPM"]
    assert label_tokens("reviews", characters, TEMPLATE, words, "tiny") == expected


def test_whole_label_words_are_all_their_tokens_after_what_all_begin_with() -> None:
    words = [" very bad film", " very good"]
    prompts = build_prompts(samples(["one"]), SPACED, TEMPLATE, words, "tiny", 1000)
    bad, film, good = (sum(map(ord, word)) for word in (" bad", " film", " good"))
    assert prompts["word_tokens"].to_list() == [[[bad, film], [good]]]
    assert prompts["label_tokens"].to_list() == [[bad, good]]
    assert prompts["context"].to_list() == [1000]


@pytest.mark.parametrize(
    ("words", "warned"), [([" Bad.", " Good"], True), ([" Bad", " Good"], False)]
)
def test_a_label_word_whose_last_token_takes_in_the_newline_is_warned_of(
    words: list[str], warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    joined = StubTokenizer(r" \w+|\.\n|(?s:.)")
    build_prompts(samples(["one"]), joined, TEMPLATE, words, "tiny", 1000)
    told = (
        'for model tiny, the tokens of "Bad." take in what follows it, and so does its score as a '
        "whole word; a label word that does not end with punctuation avoids it."
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


@pytest.mark.parametrize("name", BYTE_LEVEL)
def test_a_blank_in_the_template_instead_of_the_label_word_is_refused(name: str) -> None:
    template = Template.parse("Review: {text}\nSentiment: {label}")
    with pytest.raises(InputError, match="the label word 'Positive' is merged with what precedes"):
        build_prompt(trained(name), template, [("x", "Positive")], "y")


def samples(texts: list[str]) -> pl.DataFrame:
    """One fixed-protocol sample per text, with two demonstrations."""
    return pl.DataFrame(
        {
            "task": ["reviews"] * len(texts),
            "seed": [4] * len(texts),
            "demonstrations": ["fixed"] * len(texts),
            "example": list(range(10, 10 + len(texts))),
            "text": texts,
            "label": [1] * len(texts),
            "demonstration_rows": [[3, 5]] * len(texts),
            "demonstration_texts": [["dull", "fine"]] * len(texts),
            "demonstration_labels": [[0, 1]] * len(texts),
        }
    )


def test_prompts_become_rows_in_the_samples_order() -> None:
    words = StubTokenizer(r"[^ \n]+|\n")
    frame = build_prompts(samples(["one", "two words"]), words, TEMPLATE, LABELS, "tiny", 100)
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
    words = StubTokenizer(r"[^ \n]+|\n")
    frame = build_prompts(samples(["one", "two words"]), words, TEMPLATE, LABELS, "tiny", 16)
    assert frame["skipped"].to_list() == [None, "17 tokens exceed the context of 16"]
    assert frame["token_ids"].list.len().to_list() == [16, 17]


def test_a_label_word_merged_in_one_prompt_alone_is_told_with_task_and_text() -> None:
    template = Template.parse("{text}={label}")
    sampled = samples(["one"]).with_columns(demonstration_texts=pl.Series([["dull", "q"]]))
    with pytest.raises(InputError) as error:
        build_prompts(sampled, StubTokenizer(r"(?s)q=.|."), template, ["no", "yes"], "m", 100)
    assert str(error.value).startswith(
        "tasks.reviews.labels: for model m and test text 10, the label word 'yes' is merged with"
    )


@pytest.mark.parametrize(
    ("name", "piece"),
    [("byte-level", "word "), ("sentencepiece BPE", "x")],
)
def test_a_text_of_a_million_characters_is_counted_as_too_long_within_seconds(
    name: str, piece: str
) -> None:
    long = piece * (10**6 // len(piece))
    begun = time.monotonic()
    frame = build_prompts(samples([long, "one"]), trained(name), TEMPLATE, LABELS, "tiny", 1024)
    assert time.monotonic() - begun < 60
    assert frame["skipped"].is_not_null().to_list() == [True, False]
    assert frame["tokens"][0] > 1024


def test_an_empty_query_merged_with_the_separator_begins_at_the_last_token() -> None:
    merging = StubTokenizer(r"\n+| ?[a-z]+|.")
    template = Template.parse("{text}\n{label}")
    prompt = build_prompt(merging, template, [("some", " yes"), ("more", " no")], "")
    assert prompt.query_start == prompt.target_position == len(prompt.token_ids) - 1
    assert prompt.demonstration_ends == [4, 7]
    assert prompt.label_positions == [2, 6]


PIECES = [
    " ",
    "\n",
    ":",
    "é",
    "😀",
    "e\u0301",
    "\u200b",
    "\u202e",
    "\0",
    "\ufeff",
    "ﬁ",
    "<s>",
    "a",
    "film",
]
PIECE = st.lists(st.sampled_from(PIECES) | ANY_TEXT, min_size=1, max_size=4).map("".join)
SAID = PIECE.filter(str.strip)  # neither texts nor words are blank
TEMPLATES = st.builds(
    lambda start, middle, instruction, separator: Template(
        (("template", start), ("field", "text"), ("template", middle)),
        instruction=instruction,
        separator=separator,
    ),
    st.just("") | PIECE,
    PIECE,
    st.just("") | SAID,
    st.just("\n") | PIECE,
)
WORDS = st.builds(lambda blank, word: blank + word, st.sampled_from(["", " "]), SAID)


@pytest.mark.parametrize("name", [*MAKERS, *NORMALIZING])
@settings(max_examples=150, deadline=None)
@given(template=TEMPLATES, demonstrations=st.lists(st.tuples(SAID, WORDS), max_size=3), query=SAID)
def test_any_template_texts_and_words_give_a_correct_prompt_or_one_sentence(
    name: str, template: Template, demonstrations: list[tuple[str, str]], query: str
) -> None:
    tokenizer = trained(name)
    try:
        prompt = build_prompt(tokenizer, template, demonstrations, query)
    except InputError as error:
        assert re.fullmatch(r"the (label word|tokenizer) .*; .*\.", str(error))
        return
    (_, start_of_each), _, (_, middle) = template.pieces
    whole = template.instruction + template.separator if template.instruction else ""
    starts, words = [], []
    for text, word in [*demonstrations, (query, "")]:
        starts.append(len(whole))
        whole += start_of_each + text + middle
        if len(starts) <= len(demonstrations):
            words.append((len(whole), len(whole) + len(word)))
            whole += word + template.separator
    encoding = tokenizer.encode(whole)
    offsets = encoding.offsets
    assert prompt.token_ids == encoding.ids
    assert prompt.target_position == len(offsets) - 1

    for position, (first, last) in zip(prompt.label_positions, words, strict=True):
        assert first <= offsets[position][0] < last
        assert all(end <= first for _, end in offsets[:position])

    edges = [*prompt.demonstration_starts, prompt.query_start]
    assert prompt.demonstration_ends == edges[1:]
    for position, start, end in zip(prompt.label_positions, edges, edges[1:], strict=False):
        assert start <= position < end
    for edge, start in zip(edges, starts, strict=True):
        assert all(first < start for first, last in offsets[:edge] if last > first)
        # A query that is merged with the separator begins and ends with its last token.
        blank = not whole[offsets[edge][0] : start].strip(" ")
        assert blank or edge == prompt.query_start == prompt.target_position
    assert max(prompt.label_ends, default=0) <= prompt.target_position

    # Offsets may leave out the blanks before a token, which are its own all the same.
    ends = [0, *(last for _, last in offsets[:-1])]
    begins = [min(first, end) for (first, _), end in zip(offsets, ends, strict=True)]
    merged = any(
        begin < start < last
        for begin, (_, last) in zip(begins, offsets, strict=True)
        for start in starts
    )
    if name in BYTE_LEVEL and not merged:
        spans = zip(edges, [*edges[1:], len(offsets)], strict=True)
        decoded = [
            tokenizer.decode(prompt.token_ids[a:b], skip_special_tokens=False) for a, b in spans
        ]
        assert decoded == [whole[a:b] for a, b in pairwise([*starts, len(whole)])]
