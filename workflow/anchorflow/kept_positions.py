"""Ways to compress a prompt: which positions of its demonstrations keep their keys and values.

Each method is a small function from what there is to see of the demonstrations to the positions
that are left. To add one, write it and list it in ``METHODS``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import avg_pool1d, normalize

from anchorflow.draws import generator
from anchorflow.prefix import Prefix
from anchorflow.prompts import non_label_positions

SINKS = 4  # first tokens that draw much attention whatever they are (Xiao et al. 2024)
_WINDOW = 32  # SnapKV's observation window, at most
_POOL = 5  # its pooling kernel


@dataclass(frozen=True)
class Demonstrations:
    """What a method may look at.

    ``prompt`` is a row of ``tables.PROMPTS``; ``observed`` is attention of the last W tokens of the
    prefix to all of it.
    """

    prompt: Mapping[str, Any]
    prefix: Prefix  # complete
    observed: Mapping[int, Tensor]  # layer to [H, W, P]

    def anchors(self) -> list[int]:
        """Formatting and label positions within the prefix, increasing."""
        return self.within({*self.prompt["format_positions"], *self.prompt["label_positions"]})

    def within(self, positions: set[int]) -> list[int]:
        """Those of the positions that lie in the prefix, increasing."""
        return sorted(p for p in positions if p < self.prefix.tokens)


Kept = Mapping[int, Tensor]  # layer to [1 or G, K], positions, increasing
Choose = Callable[[Demonstrations, int, int], Kept]  # from budget in tokens and number of the draw


def everywhere(shown: Demonstrations, positions: list[int]) -> Kept:
    """The same positions in every layer and head."""
    kept = torch.tensor(positions)[None]
    return dict.fromkeys(shown.prefix.layers, kept)


def full(shown: Demonstrations, budget: int, draw: int) -> Kept:
    """Every position."""
    return everywhere(shown, list(range(shown.prefix.tokens)))


def anchor(shown: Demonstrations, budget: int, draw: int) -> Kept:
    """Formatting and the first token of each label word ([A] §3.2)."""
    return everywhere(shown, shown.anchors())


def random(shown: Demonstrations, budget: int, draw: int) -> Kept:
    """Formatting, and as many random tokens of the texts as there are label words ([A] §3.2)."""
    prompt = shown.prompt
    formats = shown.within(set(prompt["format_positions"]))
    anchors = shown.anchors()
    others = shown.within(set(non_label_positions(prompt)) - set(formats))
    draws = generator(prompt["seed"], prompt["task"], "compression", draw)
    count = min(len(others), len(anchors) - len(formats))
    drawn = draws.choice(others, count, replace=False).tolist()
    return everywhere(shown, sorted([*formats, *drawn]))


def label_only(shown: Demonstrations, budget: int, draw: int) -> Kept:
    """The first token of each label word alone."""
    return everywhere(shown, shown.within(set(shown.prompt["label_positions"])))


def format_only(shown: Demonstrations, budget: int, draw: int) -> Kept:
    """Formatting alone."""
    return everywhere(shown, shown.within(set(shown.prompt["format_positions"])))


def recent(shown: Demonstrations, budget: int, draw: int) -> Kept:
    """The last tokens."""
    return everywhere(shown, list(range(shown.prefix.tokens))[-budget:])


def attention_sink(shown: Demonstrations, budget: int, draw: int) -> Kept:
    """The first four tokens and the last ones (StreamingLLM, Xiao et al. 2024)."""
    every = range(shown.prefix.tokens)
    budget = min(budget, len(every))
    first = min(SINKS, budget)
    return everywhere(shown, sorted({*every[:first], *every[len(every) - (budget - first) :]}))


def even(shown: Demonstrations, budget: int, draw: int) -> Kept:
    """Tokens at even distances, the first and the last among them."""
    budget = min(budget, shown.prefix.tokens)
    spaced = np.linspace(0, shown.prefix.tokens - 1, budget).round().astype(int)
    return everywhere(shown, sorted(set(spaced.tolist())))


def key_norm(shown: Demonstrations, budget: int, draw: int) -> Kept:
    """Per head, keys of the smallest norm, in all layers (after Devoto et al. 2024)."""
    return {
        number: _largest(-layer.key[0].float().norm(dim=-1), budget)
        for number, layer in shown.prefix.layers.items()
    }


def key_diff(shown: Demonstrations, budget: int, draw: int) -> Kept:
    """Per head, keys whose direction is least like their mean (after KeyDiff, Park et al. 2025)."""
    kept = {}
    for number, layer in shown.prefix.layers.items():
        directions = normalize(layer.key[0].float(), dim=-1)  # [G, P, D]
        mean = normalize(directions.mean(1, keepdim=True), dim=-1)
        kept[number] = _largest(-(directions * mean).sum(-1), budget)
    return kept


def tova(shown: Demonstrations, budget: int, draw: int) -> Kept:
    """Per layer, what the last token attends to most (after TOVA, Oren et al. 2024).

    It is the demonstrations' last token: the query is not known yet, other than in the paper.
    Attention is averaged over heads.
    """
    return {
        layer: _largest(rows[:, -1].mean(0, keepdim=True), budget)
        for layer, rows in shown.observed.items()
    }


def snapkv(shown: Demonstrations, budget: int, draw: int) -> Kept:
    """Per head, what the last tokens attend to most, and these (after SnapKV, Li et al. 2024).

    The window of last tokens is a quarter of the budget, at most 32, so that it fits prefixes of a
    few hundred tokens. It is the end of the demonstrations, not of the query, which is not known
    yet. Query heads that share a key head vote together; votes are averaged over five neighbors.
    """
    budget = min(budget, shown.prefix.tokens)
    window = min(_WINDOW, max(1, budget // 4))
    kept = {}
    for number, layer in shown.prefix.layers.items():
        groups = layer.key.shape[1]
        seen = shown.observed[number][:, -window:, :-window].unflatten(0, (groups, -1))
        votes = avg_pool1d(seen.sum(2).mean(1), _POOL, 1, _POOL // 2)
        chosen = _largest(votes, min(budget - window, votes.shape[1]))
        last = torch.arange(shown.prefix.tokens - window, shown.prefix.tokens, device=votes.device)
        kept[number] = torch.cat([chosen, last.expand(groups, -1)], 1)
    return kept


def _largest(scores: Tensor, count: int) -> Tensor:
    """Positions of the largest scores [1 or G, P], increasing: [1 or G, count]."""
    return scores.topk(min(count, scores.shape[1]), dim=-1).indices.sort(-1).values


METHODS: dict[str, Choose] = {
    "full": full,
    "hidden_anchor": anchor,
    "hidden_random": random,
    "label_only": label_only,
    "format_only": format_only,
    "recent": recent,
    "attention_sink": attention_sink,
    "even": even,
    "key_norm": key_norm,
    "key_diff": key_diff,
    "tova": tova,
    "snapkv": snapkv,
}
# Those that can be given any budget; the others choose by what a token is.
AT_ANY_BUDGET = ("recent", "attention_sink", "even", "key_norm", "key_diff", "tova", "snapkv")
