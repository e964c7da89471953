"""Kinds of tokens in a prompt, and the positions that label words are compared with.

The first token of a prompt (BOS, or the first token of demonstration 0) draws attention for being
first, whatever it is; so it is a kind of its own and nothing else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anchorflow.prepare.prompts import instruction_positions

KINDS = ("label", "template", "text", "instruction", "first", "query")
SOURCES = ("text", "template", "labels", "instruction", "rest", "first")
ABSENT = -1  # of no kind, of no demonstration, or no position


def label_word_tokens(prompt: Mapping[str, Any]) -> list[list[int]]:
    """The tokens of each demonstration's label word, of a row of ``PROMPTS``."""
    spans = zip(prompt["label_positions"], prompt["label_ends"], strict=True)
    return [list(range(first, end)) for first, end in spans]


def text_tokens(prompt: Mapping[str, Any]) -> list[list[int]]:
    """The tokens of each demonstration's own text, without the prompt's first token.

    These are the tokens before the label word that are not made of template alone.
    """
    formats = {0, *prompt["format_positions"]}
    spans = zip(prompt["demonstration_starts"], prompt["label_positions"], strict=True)
    return [[t for t in range(start, label) if t not in formats] for start, label in spans]


def matched_positions(
    prompt: Mapping[str, Any], which: str, random: np.random.Generator | None = None
) -> list[int] | None:
    """Positions that are compared with label words.

    Parameters
    ----------
    prompt : mapping
        A row of ``PROMPTS``.
    which : str
        ``before`` and ``after``: the token next to each label word. ``text``: tokens drawn from
        each demonstration's own text, as many as its label word has, as far as the text has them.
    random : numpy.random.Generator, optional
        For ``text``. The draw does not depend on the label words.

    Returns
    -------
    list of int or None
        In increasing order; None if a demonstration has no such token between the prompt's first
        token and the target that is of no label word.
    """
    words = label_word_tokens(prompt)
    if which == "text":
        assert random is not None
        # Permutations take the same random numbers however many of their tokens are used.
        orders = [random.permutation(tokens).tolist() for tokens in text_tokens(prompt)]
        drawn = [sorted(order[: len(w)]) for order, w in zip(orders, words, strict=True)]
        return list(chain.from_iterable(drawn)) if all(drawn) else None
    beside = [word[0] - 1 if which == "before" else word[-1] + 1 for word in words]
    of_words = {token for word in words for token in word}
    fits = min(beside) > 0 and max(beside) < prompt["target_position"]
    distinct = len(set(beside)) == len(beside) and of_words.isdisjoint(beside)
    return beside if fits and distinct else None


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
    """Index into ``SOURCES`` of every token, as seen from each token of the label words.

    ``text`` and ``template`` are those of the label word's own demonstration; ``labels``, tokens of
    label words, among them the earlier ones of its own; ``instruction``, those of the instruction;
    ``rest``, all other tokens, which are of earlier demonstrations, or separate the instruction
    from them; ``first``, the prompt's first token.

    Returns
    -------
    list of [tokens]
        Meaningful for the tokens that precede the label word's.
    """
    sources = []
    starts = prompt["demonstration_starts"]
    for start, word in zip(starts, label_word_tokens(prompt), strict=True):
        of_word = np.full(len(kinds), SOURCES.index("rest"), np.int8)
        own = kinds[start:]
        of_word[start:][own == KINDS.index("text")] = SOURCES.index("text")
        of_word[start:][own == KINDS.index("template")] = SOURCES.index("template")
        of_word[kinds == KINDS.index("label")] = SOURCES.index("labels")
        of_word[kinds == KINDS.index("instruction")] = SOURCES.index("instruction")
        of_word[kinds == KINDS.index("first")] = SOURCES.index("first")
        sources += [of_word] * len(word)
    return sources


@dataclass(frozen=True)
class TokenKinds:
    """What the tokens of a batch of prompts are; on the CPU, padded by ``ABSENT``."""

    kinds: Tensor  # [B, T], int8, index into KINDS
    label_rows: Tensor  # [B, M], the tokens of label words
    sources: Tensor  # [B, M, T], int8, index into SOURCES as seen from these tokens
    matched: Mapping[str, Tensor]  # [B, M]; all absent for prompts without such positions

    @classmethod
    def of(
        cls,
        prompts: Sequence[Mapping[str, Any]],
        matched: Mapping[str, Sequence[Sequence[int] | None]],
    ) -> "TokenKinds":
        """Of rows of ``PROMPTS`` and, by name, of their matched positions."""
        kinds = [kinds_of(prompt) for prompt in prompts]
        tokens = max(map(len, kinds))
        rows = [list(chain.from_iterable(label_word_tokens(prompt))) for prompt in prompts]
        sources = torch.full((len(rows), max(map(len, rows)), tokens), ABSENT, dtype=torch.int8)
        for row, (prompt, own) in enumerate(zip(prompts, kinds, strict=True)):
            of_rows = torch.from_numpy(np.stack(sources_of(prompt, own)))
            sources[row, : len(of_rows), : len(own)] = of_rows
        return cls(
            padded([kind.tolist() for kind in kinds]).to(torch.int8),
            padded(rows),
            sources,
            {name: padded([each or [] for each in of]) for name, of in matched.items()},
        )


def padded(rows: Sequence[Sequence[int]]) -> Tensor:
    """Rows of different lengths as [B, longest], padded by ``ABSENT``."""
    whole = torch.full((len(rows), max(map(len, rows))), ABSENT)
    for row, values in enumerate(rows):
        whole[row, : len(values)] = torch.tensor(values, dtype=torch.long)
    return whole
