"""Attention from the target to every demonstration, recorded while the model predicts."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel

from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import (
    Attention,
    AttentionCall,
    Intervention,
    attention_rows,
    intervene,
)
from anchorflow.model.batches import Batch
from anchorflow.model.logits import target_logits
from anchorflow.model.prefix import Prefix


class RecordRows:
    """The intervention that records one attention row per example, in every layer."""

    def __init__(self, rows: Tensor) -> None:
        self._rows = rows
        self._recorded: dict[int, Tensor] = {}

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        """Record A_l(row, :) as [B, H, K]; the layer's output is unchanged."""
        self._recorded[call.layer] = attention_rows(call, self._rows[:, None])[:, :, 0]
        return attention(call)

    def stacked(self, layers: int) -> Tensor:
        """The rows of all layers as [L, B, H, K], float32, on the CPU."""
        if sorted(self._recorded) != list(range(layers)):
            raise InputError(
                f"the attention of {layers - len(self._recorded)} of {layers} layers is missing: "
                "this model does not pass its attention through the attention interface; "
                "choose a supported architecture."
            )
        return torch.stack([self._recorded[layer].cpu() for layer in range(layers)])


class DemonstrationAttention(NamedTuple):
    """Attention from the target to each demonstration, in three variants [L, B, H, N]."""

    label: Tensor
    largest: Tensor
    mean: Tensor


def by_demonstration(rows: Tensor, batch: Batch) -> DemonstrationAttention:
    """Attention to the label word, and the largest and mean over each demonstration's tokens.

    Attention to a label word of several tokens is the sum over its tokens: the share of the
    target's attention that the word has.

    The prompt's first token draws attention for being first, whatever it is. Without a BOS token it
    belongs to the first demonstration, but it is left out of the largest and of the mean. ``rows``,
    [L, B, H, T], are A_l(q, :); the results are attention probabilities.

    Source: label word [A] eq. 5; maximum over a demonstration's tokens [K] §5.2.
    """
    token = torch.arange(rows.shape[-1])[None, None, :]
    starts, ends = batch.demonstration_starts.cpu().clamp(min=1), batch.demonstration_ends.cpu()
    inside = (token >= starts[..., None]) & (token < ends[..., None])  # [B, N, T]
    largest = [
        rows.masked_fill(~inside[None, :, None, k], 0).amax(-1) for k in range(inside.shape[1])
    ]
    total = torch.einsum("lbht,bnt->lbhn", rows, inside.float())
    return DemonstrationAttention(
        label=batch.label_words.to("cpu").total(rows),
        largest=torch.stack(largest, -1),
        mean=total / (ends - starts).clamp(min=1)[None, :, None, :],
    )


def rows_and_logits(
    model: PreTrainedModel,
    batch: Batch,
    prefix: Prefix,
    *observing: Intervention,
    at_target: Callable[[PreTrainedModel, Batch], Tensor] = target_logits,
) -> tuple[Tensor, Tensor]:
    """Attention rows and logits of prompts that begin with ``prefix``.

    The rows A_l(q, :) are [L, B, H, T], including the prefix; the logits at the target position are
    [B, vocabulary], or of the label words alone, if ``at_target`` is ``target_label_logits``.
    """
    recorded = RecordRows(batch.target_rows)
    with intervene(prefix, recorded, *observing):
        logits = at_target(model, batch)
    return recorded.stacked(model.config.get_text_config().num_hidden_layers), logits
