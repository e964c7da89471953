"""Scores of whole label words after prompts that were run to their end.

The score of a label word is the sum, or the mean, of the log-probabilities of its tokens, each
given the prompt and the word's tokens before it. The first is predicted at the target position; the
others are predicted after it, on kept keys and values of the prompt, so that a word costs all its
tokens but the last. Words that differ only in their last token cost as much as one of them, and a
word of one token costs nothing extra.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import polars as pl
import torch
from torch import Tensor
from transformers import PreTrainedModel

from anchorflow.config.cell_names import task_of
from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import (
    PADDING,
    Attention,
    AttentionCall,
    Intervention,
    LayerPrefix,
    intervene,
)
from anchorflow.model.batches import Batch
from anchorflow.model.last_tokens import LastTokens, attend_after
from anchorflow.model.prefix import KeepKeys, Prefix

log = logging.getLogger(__name__)

FIRST_TOKEN: Mapping[str, Any] = {"scoring": "first_token"}

# Interventions on the rows of a word's tokens, given the number of tokens that are run.
OnRows = Callable[[int], Sequence[Intervention]]


@dataclass(frozen=True)
class Ended:
    """Prompts with their target run, an intervention that lets tokens after it attend to them."""

    prefix: Prefix | None
    between: Mapping[int, LayerPrefix]  # the tokens after the prefix, [B, G, T, D]
    own_positions: Tensor  # [B, T]: their positions; PADDING for padding
    positions: Tensor  # [B], of the targets
    position_ids: Tensor  # [B]: position ids of the targets that the model got
    seen: Tensor | None = None  # [B, P], bool: tokens of the prefix that a prompt sees; None: all

    @classmethod
    def batch(
        cls,
        model: PreTrainedModel,
        batch: Batch,
        kept: KeepKeys,
        prefix: Prefix | None = None,
        below: Mapping[int, LayerPrefix] | None = None,
    ) -> "Ended":
        """From a run of a whole batch after ``prefix``, if any, with ``kept`` active.

        ``below`` has the keys and values of the layers that this run did not compute.
        """
        tokens = batch.input_ids.shape[1]
        every = torch.arange(tokens, device=batch.input_ids.device) + batch.prefix_tokens
        every = every.expand(batch.size, -1)
        return cls(
            prefix,
            kept.of_every_layer(model, below),
            every.masked_fill(every > batch.target_positions[:, None], PADDING),
            batch.target_positions,
            batch.target_rows + batch.first_position,
        )

    @classmethod
    def last(cls, model: PreTrainedModel, tokens: LastTokens, kept: KeepKeys) -> "Ended":
        """From a run of last tokens, in which ``kept`` comes before ``tokens``."""
        between = {
            layer: LayerPrefix(
                torch.cat([tokens.between[layer].key, target.key], 2),
                torch.cat([tokens.between[layer].value, target.value], 2),
            )
            for layer, target in kept.of_every_layer(model).items()
        }
        places = (tokens.own_positions, tokens.positions, tokens.position_ids)
        return cls(tokens.prefix, between, *places, tokens.seen)

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        """Let the tokens after each target attend to its whole prompt; [B, H, S, D]."""
        prefix = None if self.prefix is None else self.prefix.layers[call.layer]
        query = self.positions[:, None] + self._steps(call.query.shape[2])
        own_positions = torch.cat([self.own_positions, query], 1)
        between = self.between[call.layer]
        return attend_after(call, attention, prefix, between, own_positions, query, self.seen)

    def log_probabilities(
        self,
        model: PreTrainedModel,
        words: Sequence[Sequence[int]],
        interventions: Sequence[Intervention],
    ) -> list[Tensor]:
        """Log-probability of each token of each word but the first, [B, W - 1] in nats, float32.

        ``words`` have W tokens each, at least two, and differ in the last one alone.
        ``interventions`` act on the rows of the first W - 1.
        """
        following = torch.tensor(words, device=self.positions.device)
        ids = following[0, :-1].expand(len(self.positions), -1)
        places = self.position_ids[:, None] + self._steps(ids.shape[1])
        with intervene(self, *interventions):
            output = model(input_ids=ids, position_ids=places, use_cache=False)
        logits: Tensor = output.logits.float()
        normalized = logits.log_softmax(-1)
        following = following[:, 1:, None].to(logits.device)
        return [
            normalized.gather(-1, word.expand(len(normalized), -1, 1))[..., 0] for word in following
        ]

    def _steps(self, tokens: int) -> Tensor:
        return torch.arange(1, tokens + 1, device=self.positions.device)


@dataclass(frozen=True)
class Words:
    """A task's label words, at least one of several tokens, and how they are scored."""

    tokens: tuple[tuple[int, ...], ...]  # in label order
    mean: bool  # over a word's tokens, instead of the sum

    @classmethod
    def scored(cls, prompts: pl.DataFrame, scoring: Mapping[str, Any]) -> "Words | None":
        """The words to score; None if first tokens are scored, or are all that there is.

        ``scoring`` has ``scoring``, and for ``whole_word`` also ``word_score``, as in the
        configuration.
        """
        if prompts.is_empty():
            return None
        if scoring["scoring"] == "first_token":
            if prompts["label_tokens"][0].n_unique() < len(prompts["label_tokens"][0]):
                raise InputError(
                    f"tasks.{task_of(prompts['task'][0])}.labels: for model {prompts['model'][0]}, "
                    'label words begin with the same token; set "scoring: whole_word", or choose '
                    "others."
                )
            return None
        tokens = tuple(tuple(word) for word in prompts["word_tokens"][0].to_list())
        if max(map(len, tokens)) == 1:
            return None
        return cls(tokens, scoring["word_score"] == "mean")

    def scores(
        self, model: PreTrainedModel, ended: Ended, logits: Tensor, on_rows: OnRows = lambda _: ()
    ) -> Tensor:
        """The score of each label word after each prompt, [B, C] in nats, float32.

        The label probabilities are the softmax of it. ``logits``, [B, vocabulary], follow the
        target. The words' tokens are run under the interventions that ``on_rows`` gives.
        """
        first = logits.log_softmax(-1)
        scores: dict[tuple[int, ...], Tensor] = {
            word: first[:, word[0]] for word in self.tokens if len(word) == 1
        }
        several = sorted(word for word in self.tokens if len(word) > 1)
        for begun, group in groupby(several, key=lambda word: word[:-1]):  # these run once
            words = list(group)
            further = ended.log_probabilities(model, words, on_rows(len(begun)))
            for word, rest in zip(words, further, strict=True):
                every = torch.cat([first[:, word[:1]], rest.to(first.device)], 1)
                scores[word] = every.mean(1) if self.mean else every.sum(1)
        return torch.stack([scores[word] for word in self.tokens], 1)


def leave_room(prompts: pl.DataFrame, words: Words | None) -> pl.DataFrame:
    """Mark prompts as skipped if their longest label word would exceed the context, and log them.

    Without ``words``, nothing changes.
    """
    if words is None:
        return prompts
    more = max(map(len, words.tokens)) - 1  # the last token is not run
    long = pl.col("skipped").is_null() & (pl.col("tokens") + more > pl.col("context"))
    count = len(prompts.filter(long))
    if count:
        log.warning(
            "%d of %d prompts are left out: the longest label word after them exceeds the model's "
            "context.",
            count,
            len(prompts),
        )
    reason = pl.lit("no room for a label word in the context")
    return prompts.with_columns(pl.when(long).then(reason).otherwise("skipped").alias("skipped"))
