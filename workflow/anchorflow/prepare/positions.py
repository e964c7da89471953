"""Positions and kinds of tokens in a prompt, a row of ``PROMPTS``, and edges between them.

The first token of a prompt (BOS, or the first token of demonstration 0) draws attention for being
first, whatever it is; so it is a kind of its own, and edges to it are a class of their own. S_wp
and S_ww alone count it, as [A] does.

The row of an edge is the token that attends, its key the earlier token that is attended to.
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

KINDS = ("label", "template", "text", "instruction", "first", "query")
SOURCES = ("text", "template", "labels", "instruction", "rest", "first")
ABSENT = -1  # no kind, no demonstration, or no position

Edges = NDArray[np.bool_]  # [rows, keys]

CLASSES: Mapping[str, str] = {
    "label_to_target": "from label words to the target (S_pq)",
    "text_to_target": "from the demonstrations' texts to the target",
    "template_to_target": "from the demonstrations' templates to the target",
    "text_to_label": "from a demonstration's text to its label word",
    "template_to_label": "from a demonstration's template to its label word",
    "label_to_label": "from label words to later ones",
    "before_to_label": "from all earlier tokens to label words (S_wp)",
    "demonstrations_to_text": "from demonstrations to the texts of later ones",
    "demonstrations_to_query": "from demonstrations to the query before the target",
    "first_to_all": "from the prompt's first token to all later ones",
    "others": "between all other pairs of tokens (S_ww)",
}
WHOLE_ROWS = ("before_to_label", "others")  # leave hardly any other edges in their rows to draw
# In place of label_to_target: random keys of the same row that hold as much of its attention.
AS_HEAVY = "equal_to_target"
NEAREST = 4  # keys at about the same distance, of which one is drawn in place of an edge's key


def label_word_positions(prompt: Mapping[str, Any]) -> list[int]:
    """All tokens of label words, in increasing order, for a row of ``PROMPTS``."""
    return list(chain.from_iterable(label_word_tokens(prompt)))


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
        for kind in ("text", "template"):
            of_word[start:][kinds[start:] == KINDS.index(kind)] = SOURCES.index(kind)
        for kind, source in (
            ("label", "labels"),
            ("instruction", "instruction"),
            ("first", "first"),
        ):
            of_word[kinds == KINDS.index(kind)] = SOURCES.index(source)
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
        rows = [label_word_positions(prompt) for prompt in prompts]
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


def edges_of(prompt: Mapping[str, Any], name: str) -> Edges:
    """The edges of one of ``CLASSES`` among the tokens up to the target, for a row of ``PROMPTS``.

    [tokens, tokens], true from row to key; never on the diagonal.
    """
    tokens, target, query = (prompt[key] for key in ("tokens", "target_position", "query_start"))
    edges: Edges = np.zeros((tokens, tokens), bool)
    words = label_word_tokens(prompt)
    earlier: Edges = np.tri(tokens, k=-1, dtype=bool)
    earlier[target + 1 :] = False
    if name == "first_to_all":
        edges[1 : target + 1, 0] = True
    elif name.endswith("_to_target"):
        edges[target] = kinds_of(prompt) == KINDS.index(name.removesuffix("_to_target"))
    elif name == "demonstrations_to_query":
        of_demonstrations = [KINDS.index(kind) for kind in ("label", "text", "template")]
        edges[query:target] = np.isin(kinds_of(prompt), of_demonstrations)
    elif name == "demonstrations_to_text":
        starts = prompt["demonstration_starts"]
        for start, text in zip(starts, text_tokens(prompt), strict=True):
            edges[text, max(starts[0], 1) : start] = True
    elif name in ("before_to_label", "others"):
        for word in words:
            edges[word] = True
        if name == "others":
            edges[target] |= edges_of(prompt, "label_to_target")[target]
            edges = ~edges
    else:
        kind = KINDS.index(name.removesuffix("_to_label"))
        of_kind = kinds_of(prompt) == kind
        starts = [0] * len(words) if name == "label_to_label" else prompt["demonstration_starts"]
        for start, word in zip(starts, words, strict=True):
            edges[word, start : word[0]] = of_kind[start : word[0]]
    return edges & earlier


def random_ranks(edges: Edges, random: np.random.Generator) -> NDArray[np.int64]:
    """Random ranks, from 1, of the other earlier keys of each row with edges; 0 elsewhere.

    The prompt's first token has none. It draws so much attention that no key after it in the order
    would be reached.

    Row r of ``edges``, [rows, keys], belongs to the token at position ``keys - rows + r``.
    """
    rows, keys = edges.shape
    ranks: NDArray[np.int64] = np.zeros(edges.shape, np.int64)
    for row in np.flatnonzero(edges.any(1)):
        others = np.flatnonzero(~edges[row, : keys - rows + row])
        others = others[others > 0]
        ranks[row, others] = 1 + random.permutation(len(others))
    return ranks


def matched_edges(edges: Edges, random: np.random.Generator) -> Edges:
    """The same number of other edges in the same rows, over about the same distances.

    In place of each edge, one of the ``NEAREST`` keys that are nearest to its own is drawn from the
    earlier tokens of its row that are not in the class and have not been drawn; the prompt's first
    token is never drawn. A row with too few other keys gets all of them.

    Row r of ``edges``, [rows, keys], belongs to the token at position ``keys - rows + r``.
    """
    rows, keys = edges.shape
    drawn: Edges = np.zeros_like(edges)
    for row in np.flatnonzero(edges.any(1)):
        others = ~edges[row]
        others[keys - rows + row :] = False
        others[0] = False
        left = np.flatnonzero(others)
        # In random order, so that no edge is always the first to choose.
        for key in random.permutation(np.flatnonzero(edges[row])):
            if len(left) == 0:
                break
            near = np.argsort(np.abs(left - key), kind="stable")[:NEAREST]  # ties: always the first
            chosen = random.choice(near)
            drawn[row, left[chosen]] = True
            left = np.delete(left, chosen)
    return drawn
