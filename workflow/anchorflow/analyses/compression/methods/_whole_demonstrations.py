"""Whole demonstrations that fit a budget of tokens: a shorter prompt, a cache's plain rival."""

import math
from collections import Counter
from collections.abc import Sequence

from anchorflow.analyses.compression.methods import Demonstrations, Kept, everywhere
from anchorflow.prepare.positions import text_tokens
from anchorflow.random_draws import generator

# The usual constants of BM25: how soon a repeated token stops counting, how much length counts.
_REPETITION, _LENGTH = 1.5, 0.75


def at_random(
    demonstrations: Demonstrations,
    budget: int,
    draw: int,
    balanced: bool = False,
    sink: bool = False,
) -> Kept:
    """Demonstrations in a random order, each if it still fits; see :func:`_fitting`.

    So a budget for which only the shortest is short enough always gets this one, and its label.
    """
    prompt = demonstrations.prompt
    draws = generator(prompt["seed"], prompt["task"], "fewer demonstrations", draw)
    order = draws.permutation(len(prompt["demonstration_starts"])).tolist()
    return _fitting(demonstrations, budget, order, balanced, sink)


def nearest(demonstrations: Demonstrations, budget: int, sink: bool = False) -> Kept:
    """Demonstrations, each if it still fits, the one most similar to the prompt's query first.

    The most similar one may be too long; then those are taken that are similar and short enough.
    """
    similar = similarity(demonstrations)
    order = sorted(range(len(similar)), key=lambda k: -similar[k])  # ties: in their order
    return _fitting(demonstrations, budget, order, False, sink)


def similarity(demonstrations: Demonstrations) -> list[float]:
    """How similar each demonstration's text is to the query, by the tokens that they share (BM25).

    Tokens of the template do not count. Source: Robertson and Zaragoza 2009, eq. 3.15.
    """
    prompt, formats = demonstrations.prompt, {*demonstrations.prompt["format_positions"]}
    of_query = range(prompt["query_start"], prompt["target_position"] + 1)
    asked = {prompt["token_ids"][t] for t in of_query if t not in formats}
    texts = [Counter(prompt["token_ids"][t] for t in tokens) for tokens in text_tokens(prompt)]
    within = Counter(token for text in texts for token in text)
    mean = max(1.0, sum(map(Counter.total, texts)) / len(texts))

    def share(text: Counter[int], token: int) -> float:
        rare = math.log(1 + (len(texts) - within[token] + 0.5) / (within[token] + 0.5))
        length = _REPETITION * (1 - _LENGTH + _LENGTH * text.total() / mean)
        return rare * text[token] * (_REPETITION + 1) / (text[token] + length)

    return [sum(share(text, token) for token in sorted(asked & {*text})) for text in texts]


def _fitting(
    demonstrations: Demonstrations, budget: int, order: Sequence[int], balanced: bool, sink: bool
) -> Kept:
    """Each of the demonstrations in this order that still fits; nothing if none does.

    If ``balanced``, those of the labels that have fewest come first. What precedes the first
    demonstration is kept, too, and counts, and so does the first token if it is a ``sink`` for
    attention, of keys that were computed with it. They stay in the order of the prompt.
    """
    prompt, tokens = demonstrations.prompt, demonstrations.prefix.tokens
    starts, labels = prompt["demonstration_starts"], prompt["demonstration_labels"]
    before = range(max(starts[0], int(sink)))
    spans = [
        range(max(start, len(before)), min(end, tokens))
        for start, end in zip(starts, prompt["demonstration_ends"], strict=True)
    ]
    left, chosen, waiting = budget - len(before), list[int](), list(order)
    while waiting := [k for k in waiting if len(spans[k]) <= left]:
        of_label = Counter(labels[k] for k in chosen)
        taken = min(waiting, key=lambda k: of_label[labels[k]]) if balanced else waiting[0]
        waiting.remove(taken)
        chosen.append(taken)
        left -= len(spans[taken])
    positions = [t for k in sorted(chosen) for t in spans[k]]
    return everywhere(demonstrations, [*before, *positions] if chosen else [])
