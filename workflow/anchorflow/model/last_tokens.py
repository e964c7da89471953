"""Prompts of which only the last token is run, on kept keys and values of all tokens before it.

No token attends to the last one, so changes to its row of attention affect no other token. Keys
and values of the others are computed once; after that, a prompt costs one token (for re-weighting,
[A] §3.1).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import polars as pl
import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import PreTrainedModel

from anchorflow.model.attention_function import (
    PADDING,
    Attention,
    AttentionCall,
    LayerPrefix,
    Positions,
    intervene,
)
from anchorflow.model.batches import Batch, Budget, LabelWords, run_batches
from anchorflow.model.layers import run_layers
from anchorflow.model.logits import last_token_logits, last_token_states
from anchorflow.model.prefix import KeepKeys, Prefix


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
        return replace(
            self,
            examples=[self.examples[row] for row in rows.tolist()],
            input_ids=self.input_ids[rows],
            positions=self.positions[rows],
            position_ids=self.position_ids[rows],
            own_positions=self.own_positions[rows],
            labels=self.labels[rows],
            label_positions=self.label_positions[rows],
            label_ends=self.label_ends[rows],
            seen=None if self.seen is None else self.seen[rows],
            between={
                layer: LayerPrefix(
                    kept.key[rows.to(kept.key.device)], kept.value[rows.to(kept.value.device)]
                )
                for layer, kept in self.between.items()
            },
        )

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        """Let each last token attend to its whole prompt; [B, H, 1, D]."""
        prefix, between = self.prefix.layers[call.layer], self.between[call.layer]
        query = self.positions[:, None]
        return attend_after(call, attention, prefix, between, self.own_positions, query, self.seen)

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
    batches = run_batches(
        prompts,
        budget,
        model.device,
        partial(keep_all_but_last, model, prefix=prefix),
        prefix.tokens,
        first_position,
    )
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
    return replace(
        first,
        examples=[example for part in parts for example in part.examples],
        input_ids=torch.cat([part.input_ids for part in parts]),
        positions=torch.cat([part.positions for part in parts]),
        position_ids=torch.cat([part.position_ids for part in parts]),
        own_positions=torch.cat([_padded(part.own_positions, longest) for part in parts]),
        labels=torch.cat([part.labels for part in parts]),
        label_positions=torch.cat([part.label_positions for part in parts]),
        label_ends=torch.cat([part.label_ends for part in parts]),
        between={
            layer: LayerPrefix(
                torch.cat([_lengthened(part.between[layer].key, longest) for part in parts]),
                torch.cat([_lengthened(part.between[layer].value, longest) for part in parts]),
            )
            for layer in first.between
        },
        seen=seen,
    )


def _lengthened(kept: Tensor, tokens: int) -> Tensor:
    """Keys or values [B, G, T, D], padded with zeros to ``tokens``."""
    return pad(kept, (0, 0, 0, tokens - kept.shape[2]))


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
