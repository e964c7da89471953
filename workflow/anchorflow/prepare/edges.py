"""Edges of attention, from a token to an earlier one, by what the two tokens are.

The row of an edge is the token that attends, its key the earlier token that is attended to. The
prompt's first token draws attention for being first, so it is a class of its own; S_wp and S_ww
alone count it, as [A] does.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anchorflow.prepare.positions import label_word_tokens, text_tokens
from anchorflow.prepare.token_kinds import KINDS, kinds_of

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
