"""Tokens run on kept keys and values: the last ones of prompts, and those of whole label words.

No token attends to the last one, so changes to its row of attention affect no other token. Keys
and values of the others are computed once; after that, a prompt costs one token (for re-weighting,
[A] §3.1).

The score of a label word is the sum, or the mean, of the log-probabilities of its tokens, each
given the prompt and the word's tokens before it. The first is predicted at the target position; the
others are predicted after it, so that a word costs all its tokens but the last. Words that differ
only in their last token cost as much as one of them, and a word of one token costs nothing extra.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import groupby
from typing import Any

import polars as pl
import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import PreTrainedModel

from anchorflow.config.cell_names import task_of
from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import (
    PADDING,
    Attention,
    AttentionCall,
    Intervention,
    LayerPrefix,
    Positions,
    attend_under,
    intervene,
    plain_attention,
)
from anchorflow.model.batches import Batch, Budget, LabelWords, run_batches
from anchorflow.model.layer_kinds import runs_again
from anchorflow.model.layers import run_layers
from anchorflow.model.logits import last_token_logits, last_token_states
from anchorflow.model.prefix import KeepKeys, Prefix
from anchorflow.model.run_again import Preceding

# What there is of every prompt, of equal length in all batches.
_OF_PROMPTS = (
    *("input_ids", "positions", "position_ids"),
    *("labels", "label_positions", "label_ends"),
)


@dataclass(frozen=True)
class LastTokens:
    """The last tokens of some prompts, an intervention that lets them attend to those before."""

    examples: list[int]
    input_ids: Tensor  # [B]
    positions: Tensor  # [B]
    position_ids: Tensor  # [B]: position ids that the model gets
    own_positions: Tensor  # [B, T + 1]: of the tokens after the prefix, then of the last one
    labels: Tensor  # [B]
    label_tokens: Tensor  # [C]
    label_positions: Tensor  # [B, N]
    label_ends: Tensor  # [B, N]
    prefix: Prefix
    between: Mapping[int, LayerPrefix]  # after the prefix, [B, G, T, D], padded on the right
    token_ids: Tensor  # [B, T]: all tokens after the prefix, padded on the right
    seen: Tensor | None = None  # [B, P], bool: tokens of the prefix that a prompt sees; None: all

    @property
    def size(self) -> int:
        return len(self.examples)

    @property
    def rows(self) -> Tensor:
        """The query row of each last token, [B]: 0, the only one."""
        return torch.zeros_like(self.labels)

    @cached_property
    def label_keys(self) -> LabelWords:
        """The keys of all tokens of the label words; see :meth:`Prefix.keys_of`."""
        words = LabelWords.between(self.label_positions, self.label_ends)
        return words._replace(at=self.prefix.keys_of(words.at))

    def select(self, rows: Tensor) -> "LastTokens":
        """Some of the prompts."""
        between = self.between.items()
        of_prompts: dict[str, Any] = {name: getattr(self, name)[rows] for name in _OF_PROMPTS}
        return replace(
            self,
            **of_prompts,
            examples=[self.examples[row] for row in rows.tolist()],
            own_positions=self.own_positions[rows],
            token_ids=self.token_ids[rows],
            seen=None if self.seen is None else self.seen[rows],
            between={n: kept.map(lambda some: some[rows.to(some.device)]) for n, kept in between},
        )

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        """Let each last token attend to its whole prompt; [B, H, 1, D]."""
        prefix, between = self.prefix.layers[call.layer], self.between[call.layer]
        places = prefix, between, self.own_positions, self.positions[:, None], self.seen
        if self.preceding is None:
            return attend_after(call, attention, *places)
        return self.preceding.attend_with(
            call, lambda own: attend_after(own, attention, *places), 1
        )

    @cached_property
    def preceding(self) -> Preceding | None:
        """What runs again before the last tokens, if the prefix does."""
        before = self.prefix.preceding
        if before is None:
            return None
        rows = self.positions - self.prefix.tokens
        places = _position_ids(self.token_ids, rows, self.position_ids)
        attend = partial(self.prefix.attend, attention=plain_attention)
        return before.followed_by(self.token_ids, places, rows, attend)

    def on(self, whole: Prefix) -> "LastTokens":
        """The same prompts on the whole prefix, of which they see only what their prefix keeps."""
        if self.prefix.kept is None:
            raise ValueError("everything is kept, or layers or heads keep different positions")
        seen = torch.zeros(whole.tokens, dtype=torch.bool, device=self.positions.device)
        seen[self.prefix.kept.to(seen.device)] = True
        return replace(self, prefix=whole, seen=seen.expand(self.size, -1))

    def logits(self, model: PreTrainedModel) -> Tensor:
        """Logits of the label words, [B, C] in float32, while this intervention is active."""
        return last_token_logits(model, self.input_ids, self.position_ids, self.label_tokens)

    def vocabulary_logits(self, model: PreTrainedModel) -> Tensor:
        """Logits of the whole vocabulary, [B, vocabulary] in float32, likewise."""
        return last_token_logits(model, self.input_ids, self.position_ids)

    def states(self, model: PreTrainedModel) -> Tensor:
        """Final hidden states, [B, hidden], likewise; see :func:`answers_after`."""
        return last_token_states(model, self.input_ids, self.position_ids)


def _position_ids(token_ids: Tensor, rows: Tensor, of_rows: Tensor) -> Tensor:
    """Position ids of tokens [B, T], given those of one of their ``rows`` each, both [B]."""
    every = torch.arange(token_ids.shape[1], device=rows.device)
    return (of_rows - rows)[:, None] + every


def attend_after(
    call: AttentionCall,
    attention: Attention,
    prefix: LayerPrefix | None,
    between: LayerPrefix,
    own_positions: Tensor,
    query_positions: Tensor,
    seen: Tensor | None = None,
) -> Tensor:
    """Let tokens attend to a shared prefix and to what is between it and them; [B, H, S, D].

    ``between`` has keys and values of each prompt, [B, G, T, D], padded on the right.
    ``own_positions``, [B, T + S], are those of the tokens between, ``PADDING`` for padding, and of
    those that are run, which ``query_positions``, [B, S], repeat. ``seen``, [B, P], is true at the
    tokens of the prefix that each prompt sees.
    """
    key = own_positions.to(call.key.device)[:, None]
    if prefix is not None:
        before = prefix.positions
        if before is None:
            before = torch.arange(prefix.tokens, device=call.key.device)[None]
        key = key.expand(-1, len(before), -1)
        before = before.expand(len(key), -1, -1)
        if seen is not None:
            before = before.masked_fill(~seen.to(before.device)[:, None], PADDING)
        key = torch.cat([before, key], 2)
    whole = replace(
        call,
        key=torch.cat([between.key, call.key], 2),
        value=torch.cat([between.value, call.value], 2),
        prefix=prefix,
        positions=Positions(query_positions, key),
    )
    return attention(whole)


def keep_all_but_last(model: PreTrainedModel, batch: Batch, prefix: Prefix) -> LastTokens:
    """Run a batch after its shared prefix and keep what its last tokens attend to."""
    kept = KeepKeys()
    with intervene(prefix, kept):
        run_layers(model, batch.input_ids, batch.first_position)
    return LastTokens(
        examples=batch.examples,
        input_ids=batch.input_ids.gather(1, batch.target_rows[:, None])[:, 0],
        positions=batch.target_positions,
        position_ids=batch.target_rows + batch.first_position,
        own_positions=_own_positions(batch),
        labels=batch.labels,
        label_tokens=batch.label_tokens,
        label_positions=batch.label_positions,
        label_ends=batch.label_ends,
        prefix=prefix,
        between=kept.of_every_layer(model),
        token_ids=batch.input_ids,
    )


def keep_together(
    model: PreTrainedModel,
    prompts: pl.DataFrame,
    prefix: Prefix,
    budget: Budget,
    first_position: int | None = None,
) -> LastTokens:
    """Like :func:`keep_all_but_last`, with the last tokens of all batches combined.

    Queries begin at the position id ``first_position``, by default at the end of the prefix.
    """
    keep, places = partial(keep_all_but_last, model, prefix=prefix), (prefix.tokens, first_position)
    batches = run_batches(prompts, budget, model.device, keep, *places)
    return together([tokens for _, tokens in batches])


def together(parts: Sequence[LastTokens]) -> LastTokens:
    """The last tokens of all parts, in order; all are on the same prefix."""
    longest = max(part.between[0].tokens for part in parts)
    first = parts[0]
    seen = None
    if any(part.seen is not None for part in parts):
        everything = torch.ones(first.prefix.tokens, dtype=torch.bool, device=first.labels.device)
        seen = torch.cat(
            [everything.expand(part.size, -1) if part.seen is None else part.seen for part in parts]
        )
    of_prompts: dict[str, Any] = {
        name: torch.cat([getattr(part, name) for part in parts]) for name in _OF_PROMPTS
    }

    def lengthened(kept: Tensor) -> Tensor:  # keys or values [B, G, T, D], padded with zeros
        return pad(kept, (0, 0, 0, longest - kept.shape[2]))

    return replace(
        first,
        **of_prompts,
        examples=[example for part in parts for example in part.examples],
        own_positions=torch.cat([_padded(part.own_positions, longest) for part in parts]),
        token_ids=torch.cat(
            [pad(part.token_ids, (0, longest - part.token_ids.shape[1])) for part in parts]
        ),
        between={
            layer: _joined([part.between[layer].map(lengthened) for part in parts], 0)
            for layer in first.between
        },
        seen=seen,
    )


def _joined(parts: Sequence[LayerPrefix], axis: int) -> LayerPrefix:
    key, value = ([getattr(part, name) for part in parts] for name in ("key", "value"))
    return LayerPrefix(torch.cat(key, axis), torch.cat(value, axis))


def _padded(own_positions: Tensor, tokens: int) -> Tensor:
    """Positions [B, T + 1] with padding before that of the last token: [B, tokens + 1]."""
    more = tokens + 1 - own_positions.shape[1]
    before, last = own_positions[:, :-1], own_positions[:, -1:]
    return torch.cat([pad(before, (0, more), value=PADDING), last], 1)


def _own_positions(batch: Batch) -> Tensor:
    """Positions of the tokens after the prefix, padding from the last one on, and of the last."""
    size, tokens = batch.input_ids.shape
    every = torch.arange(tokens, device=batch.input_ids.device) + batch.prefix_tokens
    target = batch.target_positions[:, None]
    kept = every.expand(size, -1).masked_fill(every >= target, PADDING)
    return torch.cat([kept, target], 1)


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
    preceding: Preceding | None = None

    @classmethod
    def batch(
        cls,
        model: PreTrainedModel,
        batch: Batch,
        kept: KeepKeys,
        prefix: Prefix | None = None,
        below: Mapping[int, LayerPrefix] | None = None,
        interventions: Sequence[Intervention] = (),
    ) -> "Ended":
        """From a run of a whole batch after ``prefix``, if any, with ``kept`` active.

        ``below`` has the keys and values of the layers that this run did not compute.
        ``interventions`` were active, too.
        """
        tokens = batch.input_ids.shape[1]
        every = torch.arange(tokens, device=batch.input_ids.device) + batch.prefix_tokens
        every = every.expand(batch.size, -1)
        position_ids = batch.target_rows + batch.first_position
        preceding = None
        if runs_again(model.config):
            first = (prefix and prefix.preceding) or Preceding.shared(batch.input_ids[:1, :0])
            under = partial(attend_under, interventions=interventions)
            attend = partial(prefix.attend, attention=under) if prefix else under
            places = _position_ids(batch.input_ids, batch.target_rows, position_ids)
            preceding = first.followed_by(batch.input_ids, places, batch.target_rows + 1, attend)
        return cls(
            prefix,
            kept.of_every_layer(model, below),
            every.masked_fill(every > batch.target_positions[:, None], PADDING),
            batch.target_positions,
            position_ids,
            preceding=preceding,
        )

    @classmethod
    def last(
        cls,
        model: PreTrainedModel,
        tokens: LastTokens,
        kept: KeepKeys,
        interventions: Sequence[Intervention] = (),
    ) -> "Ended":
        """From a run of last tokens under ``interventions``, with ``kept`` before ``tokens``."""
        preceding, targets = tokens.preceding, kept.of_every_layer(model)
        if preceding is not None:  # all of the prompts' tokens were run
            targets = {layer: at.map(preceding.given_rows) for layer, at in targets.items()}
        between = {layer: _joined([tokens.between[layer], at], 2) for layer, at in targets.items()}
        places = (tokens.own_positions, tokens.positions, tokens.position_ids)
        if preceding is not None:
            under = partial(attend_under, interventions=interventions)
            attend = partial(tokens.attend, attention=under)
            preceding = replace(preceding, lengths=preceding.lengths + 1, attend=attend)
        return cls(tokens.prefix, between, *places, tokens.seen, preceding)

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        """Let the tokens after each target attend to its whole prompt; [B, H, S, D]."""
        if self.preceding is None:
            return self._attend_after(call, attention)
        return self.preceding.attend_with(call, lambda own: self._attend_after(own, attention))

    def _attend_after(self, call: AttentionCall, attention: Attention) -> Tensor:
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
