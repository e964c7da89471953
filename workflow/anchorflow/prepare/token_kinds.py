"""Kinds of tokens in a prompt, and the positions that label words are compared with.

The first token of a prompt (BOS, or the first token of demonstration 0) draws attention for being
first, whatever it is; so it is a kind of its own.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anchorflow.prepare.positions import instruction_positions, label_word_tokens, text_tokens

KINDS = ("label", "template", "text", "instruction", "first", "query")
SOURCES = ("text", "template", "labels", "instruction", "rest", "first")
ABSENT = -1  # no kind, no demonstration, or no position


def kinds_of(prompt: Mapping[str, Any]) -> NDArray[np.int8]:
    """Index into ``KINDS`` of every token of a row of ``PROMPTS``, [tokens].

    ``label``: all tokens of label words. ``template``: template, separators and special tokens
    before the query. ``text``: the demonstrations' texts with all their fields, and tokens that
    span text and template. ``instruction``: the text before the demonstrations, if there is one.
    ``first``: the prompt's first token. ``query``: tokens of the query before the target, which
    itself is of no kind.
    """
    kinds = np.full(prompt["tokens"], KINDS.index("text"), np.int8)
    kinds[prompt["format_positions"]] = KINDS.index("template")
    kinds[instruction_positions(prompt)] = KINDS.index("instruction")
    for word in label_word_tokens(prompt):
        kinds[word] = KINDS.index("label")
    kinds[prompt["query_start"] :] = KINDS.index("query")
    kinds[0] = KINDS.index("first")
    kinds[prompt["target_position"]] = ABSENT
    return kinds


def sources_of(prompt: Mapping[str, Any], kinds: NDArray[np.int8]) -> list[NDArray[np.int8]]:
    """Index into ``SOURCES`` of every token, [tokens], as seen from each token of the label words.

    ``text`` and ``template``: tokens of the label word's demonstration. ``labels``: tokens of label
    words, including the earlier ones of the same word. ``instruction``: tokens of the instruction.
    ``first``: the prompt's first token. ``rest``: all others, which belong to earlier
    demonstrations or separate the instruction from them. Tokens that do not precede the label
    word's have no meaningful source.
    """
    sources = []
    starts = prompt["demonstration_starts"]
    for start, word in zip(starts, label_word_tokens(prompt), strict=True):
        of_word = np.full(len(kinds), SOURCES.index("rest"), np.int8)
        from_start = kinds[start:]
        of_word[start:][from_start == KINDS.index("text")] = SOURCES.index("text")
        of_word[start:][from_start == KINDS.index("template")] = SOURCES.index("template")
        of_word[kinds == KINDS.index("label")] = SOURCES.index("labels")
        of_word[kinds == KINDS.index("instruction")] = SOURCES.index("instruction")
        of_word[kinds == KINDS.index("first")] = SOURCES.index("first")
        sources += [of_word] * len(word)
    return sources


@dataclass(frozen=True)
class TokenKinds:
    """The kinds of the tokens in a batch of prompts; on the CPU, padded by ``ABSENT``."""

    kinds: Tensor  # [B, T], int8, index into KINDS
    label_rows: Tensor  # [B, M], the tokens of label words
    sources: Tensor  # [B, M, T], int8, index into SOURCES as seen from these tokens
    matched: Mapping[str, Tensor]  # [B, M]; all absent for prompts without such positions

    # By ``label`` and the names of matched positions, [B, M, T], bool: earlier tokens of the text
    # of the same demonstration.
    own_text: Mapping[str, Tensor]

    @classmethod
    def of(
        cls,
        prompts: Sequence[Mapping[str, Any]],
        matched: Mapping[str, Sequence[Sequence[int] | None]],
    ) -> "TokenKinds":
        """From rows of ``PROMPTS`` and, by name, their matched positions."""
        kinds = [kinds_of(prompt) for prompt in prompts]
        tokens = max(map(len, kinds))
        rows = [list(chain.from_iterable(label_word_tokens(prompt))) for prompt in prompts]
        sources = torch.full((len(rows), max(map(len, rows)), tokens), ABSENT, dtype=torch.int8)
        for row, (prompt, of_prompt) in enumerate(zip(prompts, kinds, strict=True)):
            of_rows = torch.from_numpy(np.stack(sources_of(prompt, of_prompt)))
            sources[row, : len(of_rows), : len(of_prompt)] = of_rows
        found: dict[str, Sequence[Sequence[int]]] = {
            name: [row or [] for row in of_name] for name, of_name in matched.items()
        }
        return cls(
            padded([kind.tolist() for kind in kinds]).to(torch.int8),
            padded(rows),
            sources,
            {name: padded(of_name) for name, of_name in found.items()},
            {
                name: own_texts(prompts, of, tokens)
                for name, of in (found | {"label": rows}).items()
            },
        )


def own_texts(
    prompts: Sequence[Mapping[str, Any]], positions: Sequence[Sequence[int]], tokens: int
) -> Tensor:
    """Which tokens of its demonstration's text precede each position, [B, M, T], bool."""
    own = torch.zeros(len(prompts), max(map(len, positions)), tokens, dtype=torch.bool)
    for row, (prompt, of_prompt) in enumerate(zip(prompts, positions, strict=True)):
        texts = text_tokens(prompt)
        for place, position in enumerate(of_prompt):
            text = texts[bisect_right(prompt["demonstration_starts"], position) - 1]
            own[row, place, [token for token in text if token < position]] = True
    return own


def padded(rows: Sequence[Sequence[int]]) -> Tensor:
    """Rows of different lengths as [B, longest], padded by ``ABSENT``."""
    whole = torch.full((len(rows), max(map(len, rows))), ABSENT)
    for row, values in enumerate(rows):
        whole[row, : len(values)] = torch.tensor(values, dtype=torch.long)
    return whole
