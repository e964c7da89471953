"""Kinds and sources of tokens of prompts written out by hand."""

from typing import Any

import numpy as np
import polars as pl

from anchorflow.prepare.positions import KINDS, SOURCES, kinds_of, matched_positions, sources_of
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
