"""Attention from the target position to every demonstration, and the model's predictions."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import torch
from tokenizers import Tokenizer
from torch import Tensor
from tqdm import tqdm
from transformers import PreTrainedModel

from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import (
    Attention,
    AttentionCall,
    Intervention,
    attention_rows,
    intervene,
)
from anchorflow.model.batches import Batch, Budget, among, run_batches, runnable
from anchorflow.model.language_model import check_finite, of_label_words, target_logits
from anchorflow.model.prefix import KeepKeys, Prefix, compute_prefix, shared_token_ids
from anchorflow.model.size import Cost, Prompts
from anchorflow.model.word_scores import FIRST_TOKEN, Ended, Words, leave_room
from anchorflow.prepare.prompts import token_groups
from anchorflow.schemas.attention import ATTENTION
from anchorflow.schemas.frames import frame_schema, keyed
from anchorflow.schemas.predictions import PREDICTIONS

TOP_TOKENS = 5


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
        """The rows of all layers as [L, B, H, K], float32, on the CPU.

        Raises
        ------
        InputError
            If the attention of a layer is missing.
        """
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

    The prompt's first token draws attention for being first, whatever it is. Without a BOS token
    it belongs to the first demonstration, but it is left out of the largest and of the mean.

    Parameters
    ----------
    rows : [L, B, H, T]
        A_l(q, :) of each example.

    Returns
    -------
    DemonstrationAttention
        Attention probabilities.

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


def cost(prompts: Prompts, _: Mapping[str, Any], __: int) -> Cost:
    """Every text once, after shared demonstrations."""
    return Cost(prompts.once)


def measure_attention(
    model: PreTrainedModel,
    tokenizer: Tokenizer,
    prompts: pl.DataFrame,
    batch_tokens: int,
    examples: Collection[int] | None = None,
    scoring: Mapping[str, Any] = FIRST_TOKEN,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Attention rows and predictions for every runnable prompt with fixed demonstrations.

    Parameters
    ----------
    prompts : DataFrame
        ``PROMPTS`` of one model, task, and seed.
    batch_tokens : int
        Upper bound on query tokens per batch; does not affect the results.
    examples : collection of int, optional
        Measure only these test texts; does not affect their results.
    scoring : mapping
        What label probabilities are of, see :meth:`Words.scored`.

    Returns
    -------
    tuple of DataFrame
        Columns of ``ATTENTION`` and of ``PREDICTIONS``, ordered by example.

    Raises
    ------
    InputError
        If attention is missing, or logits are not finite.
    """
    words = Words.scored(prompts, scoring)
    chosen = runnable(leave_room(prompts, words), "fixed")
    empty = [pl.DataFrame(schema=frame_schema(table)) for table in (ATTENTION, PREDICTIONS)]
    measured = among(chosen, examples)
    if measured.is_empty():
        return empty[0], empty[1]
    prefix = compute_prefix(model, shared_token_ids(chosen))
    keys = prompts.select("model", "task", "seed").row(0, named=True)

    def measure(batch: Batch) -> tuple[pl.DataFrame, pl.DataFrame]:
        kept = KeepKeys()
        rows, logits = rows_and_logits(model, batch, prefix, *([] if words is None else [kept]))
        attention = _attention_frame(batch, by_demonstration(rows, batch), keys)
        scores = None
        if words is not None:
            scores = words.scores(model, Ended.batch(model, batch, kept, prefix), logits)
        return attention, prediction_frame(batch, logits, tokenizer, keys, scores)

    attention, predictions = [empty[0]], [empty[1]]
    with tqdm(total=len(measured), desc="attention", unit="example", mininterval=1) as progress:
        for batch, frames in run_batches(
            measured, Budget(batch_tokens), model.device, measure, prefix.tokens
        ):
            attention.append(frames[0])
            predictions.append(frames[1])
            progress.update(batch.size)
    return (
        pl.concat(attention).sort("example", "layer", "head", "demonstration"),
        pl.concat(predictions).sort("example"),
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


def _attention_frame(
    batch: Batch, rows: DemonstrationAttention, keys: Mapping[str, str | int]
) -> pl.DataFrame:
    """``ATTENTION`` of one batch."""
    layer, example, head, demonstration = np.indices(rows.label.shape)
    frame = pl.DataFrame(
        {
            "example": np.array(batch.examples)[example.ravel()],
            "layer": layer.ravel(),
            "head": head.ravel(),
            "demonstration": demonstration.ravel(),
            "label": batch.demonstration_labels.cpu().numpy()[
                example.ravel(), demonstration.ravel()
            ],
            "attention_label": rows.label.numpy().ravel(),
            "attention_max": rows.largest.numpy().ravel(),
            "attention_mean": rows.mean.numpy().ravel(),
        }
    )
    return keyed(frame, keys, ATTENTION)


def prediction_frame(
    batch: Batch,
    logits: Tensor,
    tokenizer: Tokenizer,
    keys: Mapping[str, str | int],
    scores: Tensor | None = None,
) -> pl.DataFrame:
    """``PREDICTIONS`` of one batch, from logits [B, vocabulary] and the label words' scores [B, C].

    By default, scores are the logits of the label words' first tokens.
    """
    if scores is None:
        scores = of_label_words(logits, batch.label_tokens)
    top = logits.softmax(-1).topk(TOP_TOKENS)
    tokens = top.indices.cpu().tolist()
    frame = label_predictions(batch, scores).with_columns(
        pl.Series("top_tokens", tokens),
        pl.Series(
            "top_texts",
            [
                [tokenizer.decode([token], skip_special_tokens=False) for token in row]
                for row in tokens
            ],
        ),
        pl.Series("top_probabilities", top.values.cpu().tolist()),
    )
    groups = token_groups(batch.label_tokens.tolist())
    return keyed(frame, {**keys, "token_groups": groups}, PREDICTIONS)


def label_predictions(batch: Batch, scores: Tensor) -> pl.DataFrame:
    """True label, prediction and label probabilities of each example of one batch.

    Parameters
    ----------
    scores : [B, C]
        Scores of the label words, such as the logits of their first tokens.
    """
    check_finite(scores, batch.examples)
    probabilities = scores.softmax(-1).cpu()
    return pl.DataFrame(
        {
            "example": batch.examples,
            "label": batch.labels.tolist(),
            "prediction": probabilities.argmax(-1).tolist(),
            "probabilities": probabilities.tolist(),
        }
    )
