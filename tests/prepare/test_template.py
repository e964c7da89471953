"""Templates, and positions: each is where construction put it, for any tokenizer and any text."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, processors

from anchorflow.config.errors import InputError
from anchorflow.prepare.control_tokens import encode
from anchorflow.prepare.positions import (
    instruction_positions,
    label_word_positions,
    non_label_positions,
)
from anchorflow.prepare.template import Template, build_prompt
from review_prompts import (
    BYTE_LEVEL,
    LABELS,
    MAKERS,
    NORMALIZING,
    PAIRS,
    TEMPLATE,
    TEXTS,
    byte_level,
    trained,
)
from stub_tokenizers import StubTokenizer

WORD_BY_WORD = StubTokenizer(r"[^ \n]+|\n")
LETTERS = StubTokenizer("(?s).")


def test_every_position_of_a_prompt_split_into_characters_is_as_worked_out_by_hand() -> None:
    # Q   x \n A :   y \n  Q     z \n  A  :
    # 0 1 2  3 4 5 6 7  8  9 10 11 12 13 14
    prompt = build_prompt(LETTERS, Template.parse("Q {text}\nA:{label}"), [("x", " y")], "z")
    assert "".join(map(chr, prompt.token_ids)) == "Q x\nA: y\nQ z\nA:"
    assert (prompt.label_positions, prompt.label_ends) == ([6], [8])
    assert label_word_positions(vars(prompt)) == [6, 7]
    assert non_label_positions(vars(prompt)) == [0, 1, 2, 3, 4, 5, 8]
    assert prompt.format_positions == [0, 1, 3, 4, 5, 8, 9, 10, 12, 13, 14]
    assert (prompt.demonstration_starts, prompt.demonstration_ends) == ([0], [9])
    assert (prompt.query_start, prompt.target_position) == (9, 14)


def test_tokens_of_text_and_template_are_merged_unless_the_template_has_spaces_alone() -> None:
    # 0 Say 1 " a" 2 "b.:" 3 " c" 4 \n 5 Say 6 " d:"
    tokenizer = StubTokenizer(r"Say| a|b\.:| c| d:|\n")
    template = Template.parse("Say {text}:{label}")
    prompt = build_prompt(tokenizer, template, [("ab.", " c")], "d")
    assert prompt.format_positions == [0, 4, 5]
    assert (prompt.field_starts, prompt.field_ends) == ([1, 6], [3, 7])
    assert prompt.merged_positions == [2, 6]  # not 1, whose space alone is the template's


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


def test_an_empty_field_is_where_the_next_one_begins() -> None:
    template = Template.parse("P:{p};H:{h};A:{label}", ("p", "h"))
    shown = [("\x1fc", " Y"), ("a\x1f", " N")]
    prompt = build_prompt(LETTERS, template, shown, "\x1f")
    #  0 P :  ;  3 H :  c  6 ;  A : _ Y \n, 12 P : a  15 ; H : ; A : _ N \n, 24 P : ; H : ; A 31 :
    assert "".join(map(chr, prompt.token_ids)) == "P:;H:c;A: Y\nP:a;H:;A: N\nP:;H:;A:"
    assert prompt.field_starts == [5, 5, 14, 21, 32, 32]
    assert prompt.field_ends == [5, 6, 15, 21, 32, 32]


def test_a_token_of_two_fields_belongs_to_the_first() -> None:
    template = Template.parse("{a}-{b} ={label}", ("a", "b"))
    prompt = build_prompt(WORD_BY_WORD, template, [("x\x1fy z", " +")], "u\x1fv")
    # 0 x-y  1 z  2 =  3 +  4 \n  5 u-v  6 =; after it, the second field of the query is empty
    assert (prompt.field_starts, prompt.field_ends) == ([0, 1, 5, 7], [1, 2, 6, 7])


def test_a_task_with_one_field_may_have_the_character_that_joins_fields() -> None:
    prompt = build_prompt(LETTERS, TEMPLATE, [("x\x1fy", " Positive")], "z")
    assert "".join(map(chr, prompt.token_ids)).startswith("Review: x\x1fy\n")
    assert (prompt.field_names, prompt.field_starts[0], prompt.field_ends[0]) == (["text"], 8, 11)
    assert prompt.instruction_end is None
    assert instruction_positions(vars(prompt)) == []


def test_a_template_is_split_at_its_placeholders() -> None:
    text = ("field", "text")
    assert TEMPLATE.pieces == (("template", "Review: "), text, ("template", "\nSentiment:"))
    pieces = (("template", ""), text, ("template", " = "))
    assert Template.parse("{text} = {label}").pieces == pieces


def test_fields_are_written_in_the_template_s_order_whatever_the_columns_order() -> None:
    template = Template.parse("{b} after {a}:{label}", ("a", "b"))
    prompt = build_prompt(LETTERS, template, [("x\x1fyz", " +")], "u\x1fv")
    # y z _ a f t e r _ x : _ +  \n v _ a f t e r _ u :
    # 0 1               9  10 12 13 14             22
    assert "".join(map(chr, prompt.token_ids)) == "yz after x: +\nv after u:"
    assert prompt.field_names == ["b", "a"]
    assert (prompt.field_starts, prompt.field_ends) == ([0, 9, 14, 22], [2, 10, 15, 23])


def test_a_text_with_another_number_of_fields_is_an_error() -> None:
    with pytest.raises(ValueError, match="shorter"):
        build_prompt(LETTERS, PAIRS, [], "one field")


def test_braces_and_other_people_s_placeholders_in_a_template_are_plain_text() -> None:
    template = Template.parse("{{text}} {0} %s ${x} {{ y }} {% z %} {model}={label}")
    prompt = build_prompt(LETTERS, template, [("{a}", " {b}")], "{label}")
    written = "".join(map(chr, prompt.token_ids))
    middle = "} {0} %s ${x} {{ y }} {% z %} {model}="
    assert written == "{{a}" + middle + " {b}\n{{label}" + middle


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


ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)


def ending() -> Tokenizer:
    tokenizer = byte_level(bos=True, trim=False)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    return tokenizer


SPACE = Template.parse("Review: {text}\nSentiment: {label}")


@pytest.mark.parametrize(
    ("tokenizer", "template", "word", "sentence"),
    [
        (ending, TEMPLATE, " Positive", "add_eos_token"),
        (partial(StubTokenizer, "never"), TEMPLATE, " Positive", "makes no tokens of 'Review: x"),
        *(
            (partial(trained, name), SPACE, "Positive", "'Positive' is merged with what precedes")
            for name in BYTE_LEVEL
        ),
        (
            partial(StubTokenizer, r" c.*|(?s:.)"),
            Template.parse("{text}={label}", separator="|"),
            " c",
            "' c' is merged with the query after it",
        ),
    ],
    ids=["with an end", "without tokens", *BYTE_LEVEL, "merged with the query"],
)
def test_a_prompt_whose_tokens_are_not_as_templates_need_them_is_refused(
    tokenizer: Callable[[], Any], template: Template, word: str, sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        build_prompt(tokenizer(), template, [("x", word)], "y")


def test_an_empty_query_merged_with_the_separator_begins_at_the_last_token() -> None:
    merging = StubTokenizer(r"\n+| ?[a-z]+|.")
    template = Template.parse("{text}\n{label}")
    prompt = build_prompt(merging, template, [("some", " yes"), ("more", " no")], "")
    assert prompt.query_start == prompt.target_position == len(prompt.token_ids) - 1
    assert prompt.demonstration_ends == [4, 7]
    assert prompt.label_positions == [2, 6]


PIECES = [*" \n:éa\u200b\u202e\0\ufeffﬁ😀", "e\u0301", "<s>", "film"]
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


def check_positions(
    name: str, template: Template, demonstrations: Sequence[tuple[str, str]], query: str
) -> None:
    """Assert what holds of a prompt for every tokenizer, template and text, or its refusal.

    Where each piece of the prompt lies in its text is worked out apart from the package.
    """
    tokenizer = trained(name)
    try:
        prompt = build_prompt(tokenizer, template, demonstrations, query)
    except InputError as error:
        assert re.fullmatch(r"the (label word|tokenizer) .*; .*\.", str(error))
        return
    (_, start_of_each), _, (_, middle) = template.pieces
    whole = template.instruction + template.separator if template.instruction else ""
    contents = [(0, len(template.instruction))] if template.instruction else []
    starts, words = [], []
    for text, word in [*demonstrations, (query, "")]:
        starts.append(len(whole))
        whole += start_of_each
        contents.append((len(whole), len(whole) + len(text)))
        whole += text + middle
        if len(starts) <= len(demonstrations):
            words.append((len(whole), len(whole) + len(word)))
            whole += word + template.separator
    contents += words
    parts = template.compose([(demonstrations, query)])[0]
    assert "".join(part for _, part in parts) == whole
    encoding = encode(tokenizer, parts)
    if "<s>" not in whole:
        assert encoding.ids == tokenizer.encode(whole).ids
    offsets = encoding.offsets
    assert prompt.token_ids == encoding.ids
    assert prompt.target_position == len(offsets) - 1

    # Offsets may leave out the blanks before a token, which are its own all the same.
    ends = [0, *(last for _, last in offsets[:-1])]
    begins = [min(first, end) for (first, _), end in zip(offsets, ends, strict=True)]
    spans = zip(prompt.label_positions, prompt.label_ends, words, strict=True)
    for position, end, (first, last) in spans:
        assert first <= offsets[position][0] < last
        assert all(end <= first for _, end in offsets[:position])
        of_word = [t for t, (a, b) in enumerate(offsets) if max(a, first) < min(b, last)]
        assert {*of_word} <= {*range(position, end)}
        assert begins[end - 1] < last

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

    for token, (first, last) in enumerate(offsets):
        holds_content = any(max(first, a) < min(last, b) for a, b in contents)
        assert not (holds_content and token in prompt.format_positions)
        outside = all(last < a or b < begins[token] for a, b in contents)  # and touches none
        assert not outside or token in prompt.format_positions

    merged = any(
        begin < start < last
        for begin, (_, last) in zip(begins, offsets, strict=True)
        for start in starts
    )
    if name in BYTE_LEVEL and not merged:
        decoded = [
            tokenizer.decode(prompt.token_ids[a:b], skip_special_tokens=False)
            for a, b in zip(edges, [*edges[1:], len(offsets)], strict=True)
        ]
        assert decoded == [whole[a:b] for a, b in pairwise([*starts, len(whole)])]


@pytest.mark.parametrize("name", [*MAKERS, *NORMALIZING])
@settings(max_examples=150, deadline=None)
@given(template=TEMPLATES, demonstrations=st.lists(st.tuples(SAID, WORDS), max_size=3), query=SAID)
def test_any_template_texts_and_words_give_a_correct_prompt_or_one_sentence(
    name: str, template: Template, demonstrations: list[tuple[str, str]], query: str
) -> None:
    check_positions(name, template, demonstrations, query)


@pytest.mark.parametrize("name", MAKERS)
@settings(max_examples=60, deadline=None)
@given(texts=st.lists(st.sampled_from(TEXTS) | ANY_TEXT, min_size=2, max_size=4))
def test_no_text_confuses_the_positions_nor_is_refused(name: str, texts: list[str]) -> None:
    demonstrations = [(text, LABELS[i % 2]) for i, text in enumerate(texts[1:])]
    prompt = build_prompt(trained(name), TEMPLATE, demonstrations, texts[0])
    assert len(prompt.label_positions) == len(demonstrations)
    check_positions(name, TEMPLATE, demonstrations, texts[0])


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("text", TEXTS)
def test_label_positions_decode_to_the_start_of_the_label_words(name: str, text: str) -> None:
    tokenizer = trained(name)
    demonstrations = [(text, " Positive"), (text, " Negative")]
    check_positions(name, TEMPLATE, demonstrations, text)
    prompt = build_prompt(tokenizer, TEMPLATE, demonstrations, text)
    for position, (_, word) in zip(prompt.label_positions, demonstrations, strict=True):
        piece = tokenizer.decode([prompt.token_ids[position]]).strip()
        assert piece
        assert word.strip().startswith(piece)
