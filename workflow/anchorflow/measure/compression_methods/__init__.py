"""Compression methods: which positions of the demonstrations keep their keys and values.

Each file in this folder is one method of the same name. To add one, add a file with

- a docstring whose first paragraph is one sentence on what the method keeps; it becomes part of
  the configuration's documentation,
- ``choose(shown, budget, draw)``, of type :data:`Choose`,
- ``ANY_BUDGET = True`` if the method can keep any number of tokens, ``ANY_BUDGET = False`` if it
  selects tokens by their role, regardless of the budget,
- ``RANDOM = True`` if every draw keeps different tokens, so that several draws are measured.

Constants must be literals, since they are read without importing the file.

An instruction is not a demonstration, so every method keeps all of it: a method sees the prefix
without the instruction's tokens, and chooses among the others. A budget of as many tokens as there
are anchors, or a share, is of these others.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from anchorflow.config.registry import load
from anchorflow.model.attention_function import LayerPrefix
from anchorflow.model.prefix import Prefix
from anchorflow.prepare.prompts import instruction_positions, label_word_positions

FOLDER = "measure/compression_methods"
# Columns of the table prompts that hold one position, or several.
_POSITION = ("tokens", "target_position", "query_start")
_POSITIONS = (
    *("label_positions", "label_ends", "format_positions"),
    *("demonstration_starts", "demonstration_ends", "field_starts", "field_ends"),
)


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
        """Formatting, label words, and the instruction if any, within the prefix, increasing."""
        words = label_word_positions(self.prompt)
        return self.within(
            {*self.prompt["format_positions"], *words, *instruction_positions(self.prompt)}
        )

    def within(self, positions: set[int]) -> list[int]:
        """The given positions that lie in the prefix, increasing."""
        return sorted(p for p in positions if p < self.prefix.tokens)


def without_instruction(shown: Demonstrations) -> tuple[Demonstrations, Tensor]:
    """The demonstrations as if the instruction's tokens were not there.

    Keys, values, and attention are those of the whole prompt.

    Returns
    -------
    tuple
        The demonstrations; and the position in the prompt of each of their tokens, [P'].
    """
    instruction = instruction_positions(shown.prompt)
    rest = torch.tensor(sorted({*range(shown.prefix.tokens)} - {*instruction}))
    if not instruction:
        return shown, rest

    def moved(position: int) -> int:
        return position - bisect_left(instruction, position)

    prompt = {**shown.prompt, "instruction_end": None}
    prompt |= {name: moved(prompt[name]) for name in _POSITION}
    prompt |= {name: [moved(each) for each in prompt[name]] for name in _POSITIONS}
    prompt["token_ids"] = [
        token for t, token in enumerate(prompt["token_ids"]) if t not in instruction
    ]
    layers = {}
    for number, layer in shown.prefix.layers.items():
        at = rest.to(layer.key.device)
        layers[number] = LayerPrefix(layer.key[:, :, at], layer.value[:, :, at])
    observed = {
        number: rows[:, -len(rest) :, rest.to(rows.device)]
        for number, rows in shown.observed.items()
    }
    return Demonstrations(prompt, Prefix(len(rest), layers), observed), rest


def with_instruction(
    chosen: Mapping[int, Tensor], rest: Tensor, prompt: Mapping[str, Any]
) -> "Kept":
    """The positions in the prompt of what was chosen, and those of the instruction.

    Parameters
    ----------
    chosen : layer to Tensor [1 or G, K]
        Indices into ``rest``.
    rest : [P'], int
        From :func:`without_instruction`.
    prompt : mapping
        The whole prompt, a row of ``PROMPTS``.
    """
    kept = {}
    for number, indices in chosen.items():
        own = rest.to(indices.device)[indices]
        instruction = torch.tensor(instruction_positions(prompt), dtype=own.dtype)
        both = [instruction.to(own.device).expand(len(own), -1), own]
        kept[number] = torch.cat(both, 1).sort(1).values
    return kept


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


def anchors_alone(shown: Demonstrations) -> Prefix:
    """The prefix of which only the anchors are kept, as by the method ``hidden_anchor``."""
    choosable, rest = without_instruction(shown)
    chosen = method("hidden_anchor")(choosable, len(choosable.anchors()), 0)
    return shown.prefix.keep(with_instruction(chosen, rest, shown.prompt))


def largest(scores: Tensor, count: int) -> Tensor:
    """Positions of the largest scores [1 or G, P], increasing: [1 or G, count]."""
    return scores.topk(min(count, scores.shape[1]), dim=-1).indices.sort(-1).values
