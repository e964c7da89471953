"""Saliency of the information flows of [A] §2.1, in memory linear in the number of tokens.

I_l = |Σ_h A_{h,l} ⊙ ∂L/∂A_{h,l}| (eq. 1), where L is the cross-entropy of the true label among
the label words at the target position. Attention runs as one ``autograd.Function``: forward keeps
only queries, keys and values; backward recomputes A in chunks of rows and reduces each chunk of
I_l on the spot.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import polars as pl
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from tqdm import tqdm
from transformers import PreTrainedModel

from anchorflow.attention_function import (
    Attention,
    AttentionCall,
    attention_gradients,
    intervene,
    plain_attention,
    row_chunks,
)
from anchorflow.batches import Batch, batches_of, runnable
from anchorflow.errors import InputError
from anchorflow.language_model import label_logits
from anchorflow.tables import SALIENCY, frame_schema, keyed


class FlowMeans(NamedTuple):
    """S_wp, S_pq, S_ww, in nats: each a mean over ordered token pairs."""

    s_wp: Tensor
    s_pq: Tensor
    s_ww: Tensor


def flow_means(
    row_sums: Tensor, target_row: Tensor, label_positions: Tensor, target_positions: Tensor
) -> FlowMeans:
    """Mean significance of the three information flows of one layer.

    C_wp = {(p_k, j): j < p_k}, C_pq = {(q, p_k)}, C_ww = {(i, j): j < i} − C_wp − C_pq.

    Parameters
    ----------
    row_sums : [..., T]
        Σ_{j<i} I_l(i, j) for each token i.
    target_row : [..., N]
        I_l(q, p_k) for each demonstration k.
    label_positions : [..., N], int
        Token index p_k of each demonstration's label word.
    target_positions : [...], int
        Token index q whose next token is predicted; rows after it must be zero.

    Returns
    -------
    FlowMeans
        Each [...], float64.

    Raises
    ------
    ValueError
        If a label position does not precede the target.

    Source: Wang et al. 2023, eq. 2-4.
    """
    if bool((label_positions >= target_positions[..., None]).any()):
        raise ValueError("a label position does not precede the target position")
    row_sums, target_row = row_sums.double(), target_row.double()
    pairs_wp = label_positions.sum(-1)
    pairs_pq = label_positions.shape[-1]
    pairs = target_positions * (target_positions + 1) // 2
    sum_wp = row_sums.gather(-1, label_positions).sum(-1)
    sum_pq = target_row.sum(-1)
    sum_ww = row_sums.sum(-1) - sum_wp - sum_pq
    return FlowMeans(
        s_wp=sum_wp / pairs_wp, s_pq=sum_pq / pairs_pq, s_ww=sum_ww / (pairs - pairs_wp - pairs_pq)
    )


class SaliencySink(Protocol):
    """Takes the saliency of one layer, a chunk of rows at a time."""

    def take(self, layer: int, rows: slice, keys: slice, saliency: Tensor) -> None:
        """``saliency`` is I_l(rows, keys) as [B, rows, keys], float32, zero for hidden keys."""


class FlowSums:
    """A sink that keeps the row sums and the target-to-label entries of every layer."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._row_sums: dict[int, Tensor] = {}
        self._target_rows: dict[int, Tensor] = {}

    def take(self, layer: int, rows: slice, keys: slice, saliency: Tensor) -> None:
        """Add the contributions of a chunk; the diagonal, a token's flow to itself, is left out."""
        device = saliency.device
        size, tokens = self._batch.input_ids.shape
        sums = self._row_sums.setdefault(
            layer, torch.zeros(size, tokens, dtype=torch.float64, device=device)
        )
        entries = self._target_rows.setdefault(
            layer,
            torch.zeros(self._batch.label_positions.shape, dtype=torch.float64, device=device),
        )
        saliency.diagonal(rows.start - keys.start, -2, -1).zero_()
        sums[:, rows] = saliency.sum(-1, dtype=torch.float64)
        target = self._batch.target_positions.to(device)
        labels = self._batch.label_positions.to(device)
        here = ((target >= rows.start) & (target < rows.stop)).nonzero()[:, 0]
        within = labels[here] - keys.start
        picked = saliency[here, target[here] - rows.start].gather(1, within.clamp(min=0))
        entries[here] = picked.double().masked_fill(within < 0, 0)

    def means(self, layers: int) -> FlowMeans:
        """S_wp, S_pq and S_ww of every layer as [L, B], float64, on the CPU.

        Raises
        ------
        InputError
            If a layer's gradient is missing, or all of them are zero or not finite.
        """
        if sorted(self._row_sums) != list(range(layers)):
            raise InputError(
                f"the gradients of {layers - len(self._row_sums)} of {layers} layers are missing: "
                "this model does not pass its attention through the attention interface; "
                "choose a supported architecture."
            )
        row_sums = torch.stack([self._row_sums[layer].cpu() for layer in range(layers)])
        entries = torch.stack([self._target_rows[layer].cpu() for layer in range(layers)])
        total = row_sums.sum((0, 2))
        if not bool(torch.isfinite(total).all() & (total > 0).all()):
            raise InputError(
                "the saliency of a prompt is zero or not finite in all layers; "
                'try "dtype: float32" for this model.'
            )
        return flow_means(
            row_sums,
            entries,
            self._batch.label_positions.cpu().expand_as(entries),
            self._batch.target_positions.cpu().expand(layers, -1),
        )


class Saliency:
    """The intervention that lets gradients report I_l to a sink on their way down."""

    def __init__(self, sink: SaliencySink) -> None:
        self._sink = sink

    def attend(self, call: AttentionCall, _: Attention) -> Tensor:
        """Plain attention whose backward pass measures saliency; [B, H, T, D]."""
        output: Tensor = _MeasuredAttention.apply(
            call.query, call.key, call.value, call, self._sink
        )
        return output


class _MeasuredAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, call: AttentionCall, sink: SaliencySink
    ) -> Tensor:
        ctx.save_for_backward(query, key, value)
        ctx.layer, ctx.how = call.layer, (call.scaling, call.sliding_window, call.softcap)
        ctx.sink = sink
        return plain_attention(call)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        # Every chunk multiplies slices of these; they would be copied each time if not contiguous.
        output_gradient = gradients[0].contiguous()
        saved = (tensor.contiguous() for tensor in ctx.saved_tensors)
        call = AttentionCall(ctx.layer, *saved, *ctx.how)
        query_gradient = torch.empty_like(call.query)
        key_gradient, value_gradient = torch.zeros_like(call.key), torch.zeros_like(call.value)
        for start, stop in row_chunks(call):
            significance, *parts = attention_gradients(call, output_gradient, start, stop)
            keys = call.keys_of(start, stop)
            query_gradient[:, :, start:stop] = parts[0]
            key_gradient[:, :, keys] += parts[1]
            value_gradient[:, :, keys] += parts[2]
            ctx.sink.take(call.layer, slice(start, stop), keys, significance.abs_())
        return query_gradient, key_gradient, value_gradient, None, None


def label_loss(logits: Tensor, batch: Batch) -> Tensor:
    """L: cross-entropy of the true label among the label words, summed over the batch, in nats.

    ``logits`` [B, C] are those of the label words.
    """
    return cross_entropy(logits, batch.labels.to(logits.device), reduction="sum")


def batch_saliency(model: PreTrainedModel, batch: Batch, sink: SaliencySink) -> None:
    """Run one batch forward and backward; every layer reports its saliency to ``sink``."""
    with intervene(Saliency(sink)):
        loss = label_loss(label_logits(model, batch), batch)
        loss.backward()


def measure_saliency(
    model: PreTrainedModel, prompts: pl.DataFrame, batch_tokens: int
) -> pl.DataFrame:
    """S_wp, S_pq and S_ww of every layer for every runnable prompt with its own demonstrations.

    Parameters
    ----------
    prompts : DataFrame
        ``tables.PROMPTS`` of one model, task and seed.
    batch_tokens : int
        Upper bound of tokens per batch; does not change the numbers.

    Returns
    -------
    DataFrame
        Columns of ``tables.SALIENCY``, ordered by example and layer.

    Raises
    ------
    InputError
        If gradients come back missing, zero or not finite.
    """
    chosen = runnable(prompts, "per_example")
    layers: int = model.config.get_text_config().num_hidden_layers
    keys = prompts.select("model", "task", "seed").row(0, named=True)
    parts = [pl.DataFrame(schema=frame_schema(SALIENCY))]
    with tqdm(total=len(chosen), desc="saliency", unit="example", mininterval=1) as progress:
        for batch in batches_of(chosen, batch_tokens, model.device):
            sink = FlowSums(batch)
            batch_saliency(model, batch, sink)
            parts.append(_rows(batch.examples, layers, sink.means(layers), keys))
            progress.update(batch.size)
    return pl.concat(parts).sort("example", "layer")


def _rows(
    examples: Sequence[int], layers: int, means: FlowMeans, keys: Mapping[str, str | int]
) -> pl.DataFrame:
    frame = pl.DataFrame(
        {
            "example": [example for _ in range(layers) for example in examples],
            "layer": [layer for layer in range(layers) for _ in examples],
            **{name: value.flatten().numpy() for name, value in means._asdict().items()},
        }
    )
    return keyed(frame, keys, SALIENCY)
