"""Compression methods: which positions of the demonstrations keep their keys and values.

Each file in this folder is one method of the same name. To add one, add a file with

- a docstring whose first paragraph is one sentence on what the method keeps; it becomes part of
  the configuration's documentation,
- ``choose(shown, budget, draw)``, of type :data:`Choose`,
- ``ANY_BUDGET = True`` if the method can keep any number of tokens, ``ANY_BUDGET = False`` if it
  selects tokens by their role, regardless of the budget,
- ``RANDOM = True`` if every draw keeps different tokens, so that several draws are measured.

Constants must be literals, since they are read without importing the file.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from anchorflow.config.registry import load
from anchorflow.model.prefix import Prefix
from anchorflow.prepare.prompts import label_word_positions

FOLDER = "measure/compression_methods"


@dataclass(frozen=True)
class Demonstrations:
    """What a method can use.

    ``prompt`` is a row of the table ``prompts``; ``observed`` is the attention of the last W tokens
    of the prefix to the whole prefix.
    """

    prompt: Mapping[str, Any]
    prefix: Prefix  # uncompressed
    observed: Mapping[int, Tensor]  # layer to [H, W, P]

    def anchors(self) -> list[int]:
        """Formatting and all tokens of label words within the prefix, increasing."""
        return self.within({*self.prompt["format_positions"], *label_word_positions(self.prompt)})

    def within(self, positions: set[int]) -> list[int]:
        """The given positions that lie in the prefix, increasing."""
        return sorted(p for p in positions if p < self.prefix.tokens)


Kept = Mapping[int, Tensor]  # layer to [1 or G, K], positions, increasing
Choose = Callable[[Demonstrations, int, int], Kept]  # arguments: shown, budget in tokens, draw


def method(name: str) -> Choose:
    """The method of this name, from its file."""
    choose: Choose = load(FOLDER, name).choose
    return choose


def everywhere(shown: Demonstrations, positions: list[int]) -> Kept:
    """The same positions in every layer and head."""
    kept = torch.tensor(positions)[None]
    return dict.fromkeys(shown.prefix.layers, kept)


def largest(scores: Tensor, count: int) -> Tensor:
    """Positions of the largest scores [1 or G, P], increasing: [1 or G, count]."""
    return scores.topk(min(count, scores.shape[1]), dim=-1).indices.sort(-1).values
