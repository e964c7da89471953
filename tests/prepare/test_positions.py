"""Positions matched with label words, of prompts written out by hand."""

from typing import Any

import numpy as np
import pytest

from anchorflow.prepare.positions import matched_positions
from constructed.wordy import bare_prompt, wordy_prompts


def drawn(prompt: dict[str, Any], seed: int = 0) -> list[int] | None:
    return matched_positions(prompt, "text", np.random.default_rng(seed))


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
