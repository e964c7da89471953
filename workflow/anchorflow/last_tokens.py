"""Prompts whose last token alone is run, against kept keys and values of all that precedes it.

No token attends to the last one, so what is done to its row of attention changes no other token.
Keys and values of the others are computed once; after that, a prompt costs one token
([A] §3.1: what re-weighting needs).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import polars as pl
import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import PreTrainedModel

from anchorflow.attention_function import (
    PADDING,
    Attention,
    AttentionCall,
    LayerPrefix,
    Positions,
    intervene,
)
from anchorflow.batches import Batch, batches_of
from anchorflow.language_model import last_token_logits, run_layers
from anchorflow.prefix import KeepKeys, Prefix


@dataclass(frozen=True)
class LastTokens:
    """The last tokens of some prompts, an intervention that gives them what precedes them."""

    examples: list[int]
    input_ids: Tensor  # [B]
    positions: Positions  # of the last tokens [B, 1], and of all keys [B, K]
    labels: Tensor  # [B]
    label_tokens: Tensor  # [C]
    label_keys: Tensor  # [B, N]: key of each demonstration's label word
    prefix: Prefix
    between: Mapping[int, LayerPrefix]  # after the prefix, [B, G, T, D], padded on the right

    @property
    def size(self) -> int:
        """Number of prompts."""
        return len(self.examples)

    @property
    def rows(self) -> Tensor:
        """The query row of each last token, [B]: the only one there is."""
        return torch.zeros_like(self.labels)

    def select(self, rows: Tensor) -> "LastTokens":
        """Some of the prompts."""
        return replace(
            self,
            examples=[self.examples[row] for row in rows.tolist()],
            input_ids=self.input_ids[rows],
            positions=Positions(self.positions.query[rows], self.positions.key[rows]),
            labels=self.labels[rows],
            label_keys=self.label_keys[rows],
            between={
                layer: LayerPrefix(
                    kept.key[rows.to(kept.key.device)], kept.value[rows.to(kept.value.device)]
                )
                for layer, kept in self.between.items()
            },
        )

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        """Let each last token attend to its whole prompt; [B, H, 1, D]."""
        before = self.between[call.layer]
        whole = replace(
            call,
            key=torch.cat([before.key, call.key], 2),
            value=torch.cat([before.value, call.value], 2),
            prefix=self.prefix.layers[call.layer],
            positions=self.positions,
        )
        return attention(whole)

    def logits(self, model: PreTrainedModel) -> Tensor:
        """Logits of the label words, [B, C] in float32, while these last tokens are in force."""
        return last_token_logits(
            model, self.input_ids, self.positions.query[:, 0], self.label_tokens
        )


def keep_all_but_last(
    model: PreTrainedModel, prompts: pl.DataFrame, prefix: Prefix, batch_tokens: int
) -> Iterator[LastTokens]:
    """Run prompts behind their shared prefix and keep what their last tokens attend to.

    Parameters
    ----------
    prompts : DataFrame
        Runnable rows of ``tables.PROMPTS`` that begin with the prefix's tokens.
    batch_tokens : int
        Upper bound of tokens run together; each batch gives its last tokens together.
    """
    for batch in batches_of(prompts, batch_tokens, model.device, prefix.tokens):
        kept = KeepKeys()
        with intervene(prefix, kept):
            run_layers(model, batch.input_ids, prefix.tokens)
        yield LastTokens(
            examples=batch.examples,
            input_ids=batch.input_ids.gather(1, batch.target_rows[:, None])[:, 0],
            positions=_positions(batch),
            labels=batch.labels,
            label_tokens=batch.label_tokens,
            label_keys=batch.label_positions,
            prefix=prefix,
            between=kept.of_every_layer(model),
        )


def keep_together(
    model: PreTrainedModel, prompts: pl.DataFrame, prefix: Prefix, batch_tokens: int
) -> LastTokens:
    """As :func:`keep_all_but_last`, with the last tokens of all batches side by side."""
    parts = list(keep_all_but_last(model, prompts, prefix, batch_tokens))
    longest = max(part.between[0].tokens for part in parts)
    first = parts[0]
    return replace(
        first,
        examples=[example for part in parts for example in part.examples],
        input_ids=torch.cat([part.input_ids for part in parts]),
        positions=Positions(
            torch.cat([part.positions.query for part in parts]),
            torch.cat([_padded(part, longest) for part in parts]),
        ),
        labels=torch.cat([part.labels for part in parts]),
        label_keys=torch.cat([part.label_keys for part in parts]),
        between={
            layer: LayerPrefix(
                torch.cat([_lengthened(part.between[layer].key, longest) for part in parts]),
                torch.cat([_lengthened(part.between[layer].value, longest) for part in parts]),
            )
            for layer in first.between
        },
    )


def _lengthened(kept: Tensor, tokens: int) -> Tensor:
    """Keys or values [B, G, T, D] with zeros up to ``tokens``."""
    return pad(kept, (0, 0, 0, tokens - kept.shape[2]))


def _padded(part: LastTokens, tokens: int) -> Tensor:
    """Positions of all keys, with padding before that of the last token."""
    key = part.positions.key
    more = tokens - part.between[0].tokens
    return torch.cat([pad(key[:, :-1], (0, more), value=PADDING), key[:, -1:]], 1)


def _positions(batch: Batch) -> Positions:
    """Of the last tokens, and of prefix, kept tokens (last one and padding left out), last one."""
    size, tokens = batch.input_ids.shape
    every = torch.arange(batch.prefix_tokens + tokens, device=batch.input_ids.device)
    target = batch.target_positions[:, None]
    kept = every.expand(size, -1).masked_fill(every >= target, PADDING)
    return Positions(target, torch.cat([kept, target], 1))
