"""Compression methods: which positions of the demonstrations keep their keys and values.

Each file in this folder is one method of the same name. To add one, add a file with

- a docstring whose first paragraph is one sentence on what the method keeps; it becomes part of
  the configuration's documentation,
- ``choose(shown, budget, draw)``, of type :data:`Choose`,
- ``ANY_BUDGET = True`` if the method can keep any number of tokens, ``ANY_BUDGET = False`` if it
  selects tokens by their role, whatever the budget,
- ``RANDOM = True`` if the method draws at random; several draws are then measured,
- ``AS_TEXT = True`` if what it chooses runs as a text of its own,
- ``WHOLE = True`` if it chooses whole demonstrations, of which none may fit its budget: queries are
  then answered without demonstrations,
- ``PER_QUERY = True`` if it chooses for each query, the one of ``prompt``,
- ``REPEATS = True``, ``WRITES = True``, ``QUERIES = True`` if it reads ``repeated``, ``written``,
  or ``queries`` of :class:`Demonstrations`, which are not there otherwise.

Constants must be literals, since they are read without importing the file.

An instruction is not a demonstration, so every method keeps all of it: a method sees the prefix
without the instruction's tokens and chooses among the others. Budgets, the number of anchors or a
share, count these others only.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from anchorflow.config.registry import load
from anchorflow.model.attention_function import PADDING, LayerPrefix
from anchorflow.model.prefix import Prefix
from anchorflow.prepare.positions import instruction_positions, label_word_positions

FOLDER = "analyses/compression/methods"
SINKS = 4  # first tokens, which attract attention whatever they are, and which some methods keep
# Columns of ``PROMPTS`` with one position, or several; they shift when the instruction is left out.
_POSITION = ("tokens", "target_position", "query_start")
_POSITIONS = (
    *("label_positions", "label_ends", "format_positions"),
    *("demonstration_starts", "demonstration_ends", "field_starts", "field_ends"),
)


class Queries(NamedTuple):
    """Mean and covariance of the queries of each head that tokens to come may have.

    Scaled, so that products with keys are scores.
    """

    mean: Tensor  # [H, D], float32
    covariance: Tensor  # [H, D, D]


@dataclass(frozen=True)
class Demonstrations:
    """The demonstrations as a method sees them.

    ``prompt`` is a row of ``PROMPTS``; ``observed`` is the attention of the last W tokens of the
    prefix to the whole prefix. By layer, what methods declare to read: ``repeated``, the most
    attention that a key gets while the model repeats the demonstrations, ``written``, the norm
    |W_O v| of what a value writes through each head, and ``queries``.
    """

    prompt: Mapping[str, Any]
    prefix: Prefix  # uncompressed
    observed: Mapping[int, Tensor]  # layer to [H, W, P]
    repeated: Mapping[int, Tensor] = field(default_factory=dict)  # [G, P], float32
    written: Mapping[int, Tensor] = field(default_factory=dict)  # [H, P], float32
    queries: Mapping[int, Queries] = field(default_factory=dict)

    def anchors(self) -> list[int]:
        """Positions of formatting, label words, and any instruction in the prefix, increasing."""
        words = label_word_positions(self.prompt)
        return self.within(
            {*self.prompt["format_positions"], *words, *instruction_positions(self.prompt)}
        )

    def within(self, positions: set[int]) -> list[int]:
        """Those of the positions that lie in the prefix, increasing."""
        return sorted(p for p in positions if p < self.prefix.tokens)


def without_instruction(demonstrations: Demonstrations) -> tuple[Demonstrations, Tensor]:
    """The demonstrations without the instruction's tokens, numbered as if these were not there.

    Keys, values, and attention are still those of the whole prompt. They come with the position of
    each of their P' tokens in the prompt, [P'].
    """
    instruction = instruction_positions(demonstrations.prompt)
    rest = torch.tensor(sorted({*range(demonstrations.prefix.tokens)} - {*instruction}))
    if not instruction:
        return demonstrations, rest

    def moved(position: int) -> int:
        return position - bisect_left(instruction, position)

    prompt = {**demonstrations.prompt, "instruction_end": None}
    prompt |= {name: moved(prompt[name]) for name in _POSITION}
    prompt |= {name: [moved(index) for index in prompt[name]] for name in _POSITIONS}
    prompt["token_ids"] = [
        token for t, token in enumerate(prompt["token_ids"]) if t not in instruction
    ]
    layers = {}
    for number, layer in demonstrations.prefix.layers.items():
        at = rest.to(layer.key.device)
        layers[number] = LayerPrefix(layer.key[:, :, at], layer.value[:, :, at])
    # Of the last W tokens, only those that are not the instruction's remain.
    observed = {
        number: rows[:, -len(rest) :, rest.to(rows.device)]
        for number, rows in demonstrations.observed.items()
    }

    def of_rest(scores: Mapping[int, Tensor]) -> dict[int, Tensor]:
        return {number: of[:, rest.to(of.device)] for number, of in scores.items()}

    shown = replace(
        demonstrations,
        prompt=prompt,
        prefix=Prefix(len(rest), layers),
        observed=observed,
        repeated=of_rest(demonstrations.repeated),
        written=of_rest(demonstrations.written),
    )
    return shown, rest


def with_instruction(
    chosen: Mapping[int, Tensor], rest: Tensor, prompt: Mapping[str, Any]
) -> "Kept":
    """Positions in the prompt of the chosen tokens and of the instruction's.

    ``chosen``, [1 or G, K] by layer, are indices into ``rest``, [P'], of
    :func:`without_instruction`, or ``PADDING``.
    """
    kept = {}
    for number, indices in chosen.items():
        positions = rest.to(indices.device)[indices.clamp(max=len(rest) - 1)]
        positions = positions.masked_fill(indices == PADDING, PADDING)
        instruction = torch.tensor(instruction_positions(prompt), dtype=positions.dtype)
        both = [instruction.to(positions.device).expand(len(positions), -1), positions]
        kept[number] = torch.cat(both, 1).sort(1).values
    return kept


# Layer to [1 or G, K], positions, increasing; PADDING after those of heads that keep fewer.
Kept = Mapping[int, Tensor]
Choose = Callable[[Demonstrations, int, int], Kept]  # arguments: shown, budget in tokens, draw


def method(name: str) -> Choose:
    """The method of this name, from its file."""
    choose: Choose = load(FOLDER, name).choose
    return choose


def everywhere(demonstrations: Demonstrations, positions: list[int]) -> Kept:
    """Keep the same positions in every layer and head."""
    kept = torch.tensor(positions)[None]
    return dict.fromkeys(demonstrations.prefix.layers, kept)


def anchors_alone(demonstrations: Demonstrations) -> Prefix:
    """The prefix with the keys and values of only the anchors, as ``hidden_anchor`` keeps them."""
    choosable, rest = without_instruction(demonstrations)
    chosen = method("hidden_anchor")(choosable, len(choosable.anchors()), 0)
    return demonstrations.prefix.keep(with_instruction(chosen, rest, demonstrations.prompt))


def largest(scores: Tensor, count: int) -> Tensor:
    """Positions of the ``count`` largest scores [1 or G, P], increasing: [1 or G, count]."""
    return scores.topk(min(count, scores.shape[1]), dim=-1).indices.sort(-1).values


def sinks_first(scores: Tensor) -> Tensor:
    """Scores [..., P] in which the first four tokens come first, in their order."""
    scores = scores.clone()
    first = scores[..., :SINKS]
    scores[..., :SINKS] = torch.arange(first.shape[-1], 0, -1, device=scores.device) * 1e30
    return scores


def padded(chosen: Tensor) -> Tensor:
    """Positions at which [1 or G, P] is true, increasing, with ``PADDING``: [1 or G, K]."""
    every = torch.arange(chosen.shape[1], device=chosen.device).expand_as(chosen)
    most = int(chosen.sum(1).max())
    return every.masked_fill(~chosen, PADDING).sort(1).values[:, :most]
