"""Positions of a prompt: of label words, of the instruction, of texts, and matched random ones."""

from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np


def label_word_positions(prompt: Mapping[str, Any]) -> list[int]:
    """All tokens of label words, in increasing order, for a row of ``PROMPTS``."""
    words = zip(prompt["label_positions"], prompt["label_ends"], strict=True)
    return [t for first, end in words for t in range(first, end)]


def instruction_positions(prompt: Mapping[str, Any]) -> list[int]:
    """Tokens of the instruction, of a row of ``PROMPTS``, in increasing order; none without one.

    Special tokens before it, and the separator after it, are formatting.
    """
    formats = set(prompt["format_positions"])
    return [t for t in range(prompt["instruction_end"] or 0) if t not in formats]


def positions_without_demonstrations(prompt: Mapping[str, Any]) -> list[int]:
    """What queries see where they see no demonstrations: the first token, and the instruction.

    Without the first token, to which most of the attention goes, a model is in a state in which it
    was not trained.
    """
    return sorted({0, *instruction_positions(prompt)})


def non_label_positions(prompt: Mapping[str, Any]) -> list[int]:
    """Tokens of the demonstrations that do not belong to a label word, in increasing order."""
    words = set(label_word_positions(prompt))
    spans = zip(prompt["demonstration_starts"], prompt["demonstration_ends"], strict=True)
    return [t for start, end in spans for t in range(start, end) if t not in words]


def label_word_tokens(prompt: Mapping[str, Any]) -> list[list[int]]:
    """The tokens of each demonstration's label word, of a row of ``PROMPTS``."""
    spans = zip(prompt["label_positions"], prompt["label_ends"], strict=True)
    return [list(range(first, end)) for first, end in spans]


def text_tokens(prompt: Mapping[str, Any]) -> list[list[int]]:
    """The tokens of each demonstration's text, without the prompt's first token.

    These are the tokens before the label word that do not consist of template alone.
    """
    formats = {0, *prompt["format_positions"]}
    spans = zip(prompt["demonstration_starts"], prompt["label_positions"], strict=True)
    return [[t for t in range(start, label) if t not in formats] for start, label in spans]


def matched_positions(
    prompt: Mapping[str, Any], which: str, random: np.random.Generator | None = None
) -> list[int] | None:
    """Positions that are compared with label words, in increasing order, for a row of ``PROMPTS``.

    ``before`` and ``after``: the token next to each label word. ``text``: tokens drawn from each
    demonstration's text, the same number as in its label word, or all if the text has fewer; the
    draw does not depend on the label words.

    None if a demonstration has no such token between the prompt's first token and the target,
    outside all label words.
    """
    words = label_word_tokens(prompt)
    if which == "text":
        assert random is not None
        # Permutations take the same random numbers however many of their tokens are used.
        orders = [random.permutation(tokens).tolist() for tokens in text_tokens(prompt)]
        drawn = [sorted(order[: len(w)]) for order, w in zip(orders, words, strict=True)]
        return list(chain.from_iterable(drawn)) if all(drawn) else None
    neighbors = [word[0] - 1 if which == "before" else word[-1] + 1 for word in words]
    of_words = {token for word in words for token in word}
    fits = min(neighbors) > 0 and max(neighbors) < prompt["target_position"]
    distinct = len(set(neighbors)) == len(neighbors) and of_words.isdisjoint(neighbors)
    return neighbors if fits and distinct else None
