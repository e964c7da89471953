"""Local vectors: what label words have gathered, put into prompts whose texts are random tokens.

The prompt's random texts have as many tokens as its own, so that all positions stay, and the same
label words and template. A label word's residual stream there differs from that of the prompt
itself by what it has gathered from the texts alone.

Source: Zheng et al. 2024.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity
from transformers import PreTrainedModel

from anchorflow.analyses.vectors import COSINES
from anchorflow.arrays import Array
from anchorflow.config.cell_names import task_of
from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import intervene
from anchorflow.model.batches import Batch, Budget, run_batches
from anchorflow.model.interventions import CUTS_AT_ONCE
from anchorflow.model.layer_kinds import runs_again
from anchorflow.model.layers import Resumed, keep_outputs, resume
from anchorflow.model.logits import target_label_logits
from anchorflow.model.prefix import Prefix, compute_prefix
from anchorflow.model.run_again import hidden_states
from anchorflow.prepare.positions import label_word_tokens, text_tokens
from anchorflow.prepare.samples import exchanged
from anchorflow.random_draws import Draw


def deranged_words(
    prompt: Mapping[str, Any], random: np.random.Generator
) -> dict[int, list[int]] | None:
    """The tokens that each demonstration has in place of its label word: those of another class.

    Words are exchanged between demonstrations, so that each is as frequent as before, and no label
    is right. With two classes, or one demonstration of each, words are exchanged class by class,
    which a model may follow. A word replaces only words with the same number of tokens, so that all
    positions stay; others stay as they are, and so do words that most demonstrations have. None if
    all stay.
    """
    words = [[prompt["token_ids"][t] for t in span] for span in label_word_tokens(prompt)]
    labels, changed = prompt["demonstration_labels"], dict[int, list[int]]()
    for length in sorted({len(word) for word in words}):
        alike = [k for k, word in enumerate(words) if len(word) == length]
        of_these = [labels[k] for k in alike]
        if 2 * max(map(of_these.count, of_these)) <= len(alike):
            for k, other in zip(alike, exchanged(of_these, random), strict=True):
                changed[k] = words[alike[other]]
    return changed or None


def with_words(
    prompt: Mapping[str, Any], token_ids: Sequence[int], words: Mapping[int, Sequence[int]]
) -> list[int]:
    """The tokens with other label words in some demonstrations."""
    replaced = list(token_ids)
    for demonstration, word in words.items():
        start = prompt["label_positions"][demonstration]
        replaced[start : start + len(word)] = word
    return replaced


def with_random_texts(
    prompt: Mapping[str, Any],
    token_ids: Sequence[int],
    vocabulary: Sequence[int],
    random: np.random.Generator,
) -> list[int]:
    """The tokens with random ones of a vocabulary in place of the demonstrations' texts.

    Tokens with characters of the template, too, stay as they are, as does the prompt's first token.
    """
    replaced, merged = list(token_ids), {*prompt["merged_positions"]}
    for at in chain.from_iterable(text_tokens(prompt)):
        drawn = int(random.choice(vocabulary))
        if at not in merged:
            replaced[at] = drawn
    return replaced


class _Shared(NamedTuple):
    """The shared tokens of one prompt, run once, and outputs of some of its layers."""

    token_ids: list[int]
    prefix: Prefix
    outputs: Mapping[int, Resumed]


class LocalVectors:
    """Local vectors of the prompts of one model, task, and seed, behind each of some ``layers``."""

    def __init__(
        self,
        model: PreTrainedModel,
        prompt: Mapping[str, Any],
        token_ids: Sequence[int],
        layers: Sequence[int],
        vocabulary: Sequence[int],
        random: Draw,
    ) -> None:
        self._model, self._layers, self._random = model, layers, random
        self._words = label_word_tokens(prompt)
        self._at = torch.tensor(list(chain.from_iterable(self._words)), device=model.device)
        if len(token_ids) <= int(self._at.max()):
            raise InputError(
                f"tasks.{task_of(prompt['task'])}.template: its queries begin differently from one "
                "another, so that label words have no common vectors; begin it with a word."
            )
        texts = [
            with_random_texts(prompt, token_ids, vocabulary, random("random texts", draw))
            for draw in (0, 1)
        ]
        self._recipient, self._again = map(self._shared, texts)
        self._donors = {"own": self._shared(token_ids)}
        deranged = deranged_words(prompt, random("deranged"))
        if deranged:
            self._donors["deranged"] = self._shared(with_words(prompt, token_ids, deranged))

    def _shared(self, token_ids: Sequence[int]) -> _Shared:
        with keep_outputs(self._model, self._layers) as outputs:
            prefix = compute_prefix(self._model, token_ids)
        return _Shared(list(token_ids), prefix, dict(outputs))

    def logits(
        self, measured: pl.DataFrame, budget: Budget
    ) -> Iterator[tuple[Batch, str, int, Tensor]]:
        """Logits of label words, [B, C], by batch, source, and layer.

        Without a vector, source and layer are ``none`` and -1.
        """
        prefix = self._recipient.prefix
        again = runs_again(self._model.config)  # of which no layer of a query is kept

        def run(batch: Batch) -> list[Tensor]:
            kept = keep_outputs(self._model, () if again else self._layers)
            with kept as outputs, intervene(prefix):
                found = [target_label_logits(self._model, batch)]
            for (_, layer), changed in vectors:
                # Queries read other keys and values in the layers above.
                above = nullcontext() if again else resume(self._model, outputs[layer])
                with above, intervene(changed):
                    found.append(target_label_logits(self._model, batch))
            return found

        runs = [(source, layer) for layer in self._layers for source in (*self._donors, "random")]
        for first in range(0, len(runs), CUTS_AT_ONCE):
            group = runs[first : first + CUTS_AT_ONCE]
            vectors = [(each, self._with_vectors(*each)) for each in group]
            for batch, (untouched, *found) in run_batches(
                measured, budget, self._model.device, run, prefix.tokens
            ):
                if first == 0:
                    yield batch, "none", -1, untouched
                for (source, layer), logits in zip(group, found, strict=True):
                    yield batch, source, layer, logits

    def _with_vectors(self, source: str, layer: int) -> Prefix:
        """The recipient with a source's residual stream at label words behind a layer."""
        recipient = self._recipient.outputs[layer]
        hidden, rest = hidden_states(recipient.output)
        states = self._states(self._donors.get(source, self._donors["own"]), layer)
        if source == "random":
            drawn = self._random("random", "local", layer).standard_normal(states.shape)
            states = random_like(states, drawn)
        axes = (recipient.batch, recipient.batch + 1)
        by_token = hidden.movedim(axes, (0, 1)).clone()
        by_token[0, self._at.to(hidden.device)] = states.to(hidden)
        output = by_token.movedim((0, 1), axes)
        resumed = replace(recipient, output=output if rest is None else (output, *rest))
        return compute_prefix(
            self._model, self._recipient.token_ids, resumed=resumed, below=self._recipient.prefix
        )

    def _states(self, run: _Shared, layer: int) -> Tensor:
        """The residual stream at all tokens of label words, [tokens, ..., hidden]."""
        output = run.outputs[layer]
        hidden = hidden_states(output.output)[0]
        by_token = hidden.movedim((output.batch, output.batch + 1), (0, 1))[0]
        return by_token[self._at.to(hidden.device)]

    def similarity(self, of_task: Mapping[int, Tensor]) -> pl.DataFrame:
        """Columns of ``SIMILARITY`` by layer and demonstration.

        ``of_task`` has the centered task vector behind each layer, [..., hidden]. Local vectors and
        their control are differences from the same random texts.
        """
        ends = torch.tensor([len(word) for word in self._words]).cumsum(0) - 1
        parts = []
        for layer in self._layers:
            center, own, again = (
                self._states(run, layer)[ends].flatten(1).float().cpu()
                for run in (self._recipient, self._donors["own"], self._again)
            )
            task = of_task[layer].flatten().float().cpu()
            found = {
                f"{name}{suffix}": values.tolist()
                for suffix, of in (("", own - center), ("_control", again - center))
                for name, values in zip(COSINES, cosines(of, task), strict=True)
            }
            parts.append(pl.DataFrame({"demonstration": range(len(ends)), **found, "layer": layer}))
        return pl.concat(parts)


def cosines(vectors: Tensor, task: Tensor) -> tuple[Tensor, Tensor]:
    """Mean cosine of each of N vectors with the others, and that with another vector, [N] each.

    The first is NaN of a single vector.
    """
    pairs = cosine_similarity(vectors[:, None], vectors[None], -1)
    others = (pairs.sum(1) - pairs.diagonal()) / (len(vectors) - 1)
    return others, cosine_similarity(vectors, task[None], -1)


def random_like(states: Tensor, drawn: Array) -> Tensor:
    """Random directions, ``drawn`` for each row or for all, as long as states [rows, ...] are."""
    direction = torch.from_numpy(drawn).to(states).expand_as(states)
    lengths = [of.flatten(1).norm(dim=1) for of in (states, direction)]
    scale = (lengths[0] / lengths[1]).reshape(-1, *(1 for _ in states.shape[1:]))
    scaled: Tensor = direction * scale
    return scaled
