"""Kinds of tokens and matched positions of prompts written out by hand."""

from typing import Any

import numpy as np
import polars as pl
import pytest

from anchorflow.measure.token_kinds import KINDS, SOURCES, kinds_of, matched_positions, sources_of
from constructed.wordy import bare_prompt, wordy_prompts
from worded_prompts import with_instruction


def test_the_instruction_is_a_kind_and_a_source_of_its_own() -> None:
    (prompt,) = with_instruction(
        pl.DataFrame([bare_prompt()], schema_overrides={"instruction_end": pl.Int32}), 2
    ).to_dicts()
    # first | instruction (2) separator | text : label | text : label | query target
    kinds = kinds_of(prompt)
    assert [KINDS[kind] for kind in kinds[:11]] == [
        *("first", "instruction", "instruction", "template"),
        *("text", "template", "label", "text", "template", "label", "query"),
    ]
    second = [SOURCES[source] for source in sources_of(prompt, kinds)[1][:9]]
    assert second == [
        *("first", "instruction", "instruction", "rest"),
        *("rest", "rest", "labels", "text", "template"),
    ]
    assert all(drawn(prompt, seed) == [4, 7] for seed in range(5))


def drawn(prompt: dict[str, Any], seed: int = 0) -> list[int] | None:
    return matched_positions(prompt, "text", np.random.default_rng(seed))


def test_every_token_has_one_kind_and_the_target_has_none() -> None:
    kinds = [KINDS[kind] for kind in kinds_of(bare_prompt())[:8]]
    shown = ["text", "template", "label", "text", "template", "label"]
    assert kinds == ["first", *shown, "query"]
    assert kinds_of(bare_prompt())[8] not in range(len(KINDS))


def test_the_first_token_is_nothing_else_where_there_is_no_special_one() -> None:
    prompt = wordy_prompts([6], "fixed").row(0, named=True)
    assert prompt["demonstration_starts"][0] == 0
    assert KINDS[kinds_of(prompt)[0]] == "first"
    textual = {**prompt, "format_positions": prompt["format_positions"][1:]}
    assert KINDS[kinds_of(textual)[0]] == "first"
    assert all(0 not in (drawn(textual, seed) or []) for seed in range(30))


def test_a_label_word_s_sources_are_its_own_demonstration_and_the_rest() -> None:
    prompt = bare_prompt() | {"label_ends": [4, 8], "query_start": 8, "tokens": 10}
    prompt |= {"target_position": 9, "demonstration_ends": [4, 8]}
    first, second, third = (
        [SOURCES[source] for source in of[:6]] for of in sources_of(prompt, kinds_of(prompt))
    )
    assert first[:3] == ["first", "text", "template"]
    assert second == third == ["first", "rest", "rest", "labels", "text", "template"]
    # The first token of the second label word is a source of its second one.
    assert SOURCES[sources_of(prompt, kinds_of(prompt))[2][6]] == "labels"


def test_neighbors_are_the_tokens_right_beside_each_label_word() -> None:
    prompt = wordy_prompts([6], "fixed").row(0, named=True)
    assert prompt["label_positions"] == [4, 11, 21]  # of one, three and two tokens
    assert matched_positions(prompt, "before") == [3, 10, 20]
    assert matched_positions(prompt, "after") == [5, 14, 23]


@pytest.mark.parametrize(
    ("which", "changes"),
    [
        ("after", {"target_position": 7}),  # the target itself
        ("after", {"label_positions": [3, 4], "label_ends": [4, 5]}),  # the next label word
        ("before", {"label_positions": [3, 4], "label_ends": [4, 5]}),  # the one before
        ("before", {"label_positions": [1, 6], "label_ends": [4, 7]}),  # the first token
        ("text", {"format_positions": [0, 1, 2, 5]}),  # a demonstration without text
    ],
)
def test_prompts_without_such_a_token_have_no_matched_positions(
    which: str, changes: dict[str, Any]
) -> None:
    random = np.random.default_rng(0)
    assert matched_positions(bare_prompt(), which, random) is not None
    assert matched_positions(bare_prompt() | changes, which, random) is None


def test_as_many_text_tokens_are_drawn_as_the_label_word_has_if_there_are_so_many() -> None:
    prompt = wordy_prompts([6], "fixed").row(0, named=True)
    # Texts at 1-2, 7-9 and 16-19; label words of one, three and two tokens.
    seen = set()
    for seed in range(50):
        positions = drawn(prompt, seed)
        assert positions is not None
        assert positions == sorted(set(positions))
        assert [sum(a <= t < b for t in positions) for a, b in ((1, 3), (7, 10), (16, 20))] == [
            1,
            3,
            2,
        ]
        seen |= set(positions)
    assert seen == {1, 2, 7, 8, 9, 16, 17, 18, 19}
    longer = {**prompt, "label_ends": [prompt["label_positions"][0] + 9, *prompt["label_ends"][1:]]}
    assert [t for t in drawn(longer) or [] if t < 7] == [1, 2]


def test_the_draw_does_not_depend_on_the_label_words() -> None:
    prompt = wordy_prompts([6], "fixed").row(0, named=True)
    single = {**prompt, "label_ends": [label + 1 for label in prompt["label_positions"]]}
    for seed in range(10):
        all_words, one_token = drawn(prompt, seed), drawn(single, seed)
        assert all_words is not None and one_token is not None
        assert len(one_token) == 3
        assert set(one_token) <= set(all_words)
