"""Saliency of the information flows of [A] §2.1, in memory linear in the number of tokens.

I_l = |Σ_h A_{h,l} ⊙ ∂L/∂A_{h,l}| (eq. 1), where L is the cross-entropy of the true label among
the label words at the target position. Attention runs as one ``autograd.Function``: forward keeps
only queries, keys, and values; backward recomputes A in chunks of rows and immediately reduces
each chunk of I_l.

The same passes give what these flows are compared with: the flows of matched positions in place of
the label words, the target's row by kind of token, and where S_wp comes from.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import polars as pl
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from tqdm import tqdm
from transformers import PreTrainedModel

from anchorflow.config.cells import task_of
from anchorflow.config.errors import InputError
from anchorflow.measure.token_kinds import (
    ABSENT,
    KINDS,
    SOURCES,
    TokenKinds,
    matched_positions,
)
from anchorflow.model.attention_function import (
    Attention,
    AttentionCall,
    LayerPrefix,
    attention_gradients,
    intervene,
    plain_attention,
    row_chunks,
)
from anchorflow.model.batches import Batch, Budget, among, run_batches, runnable
from anchorflow.model.language_model import label_logits
from anchorflow.model.prefix import compute_prefix, shared_token_ids
from anchorflow.model.size import Cost, Prompts
from anchorflow.prepare.prompts import taken_together
from anchorflow.random_draws import generator
from anchorflow.schemas.frames import frame_schema, keyed
from anchorflow.schemas.saliency import SALIENCY

MATCHED = ("text", "before", "after")
KINDS_INTO = ("label", "text", "instruction")


class FlowMeans(NamedTuple):
    """S_wp, S_pq, S_ww, in nats: each a mean over ordered token pairs."""

    s_wp: Tensor
    s_pq: Tensor
    s_ww: Tensor


def flow_means(
    row_sums: Tensor, target_row: Tensor, label_positions: Tensor, target_positions: Tensor
) -> FlowMeans:
    """Mean significance of the three information flows of one layer.

    C_wp = {(p, j): j < p}, C_pq = {(q, p)}, C_ww = {(i, j): j < i} − C_wp − C_pq, where p are the
    tokens of the label words.

    Parameters
    ----------
    row_sums : [..., T]
        Σ_{j<i} I_l(i, j) for each token i.
    target_row : [..., M]
        I_l(q, p) for each label position.
    label_positions : [..., M], int
        Token indices p of the label words, or of what stands for them; ``ABSENT`` for padding.
    target_positions : [...], int
        Token index q whose next token is predicted; rows after it must be zero.

    Returns
    -------
    FlowMeans
        Each [...], float64; NaN without any label position.

    Raises
    ------
    ValueError
        If a label position does not precede the target.

    Source: Wang et al. 2023, eq. 2-4.
    """
    if bool((label_positions >= target_positions[..., None]).any()):
        raise ValueError("a label position does not precede the target position")
    row_sums, target_row = row_sums.double(), target_row.double()
    absent = label_positions == ABSENT
    places = label_positions.masked_fill(absent, 0)
    pairs_wp = places.sum(-1)
    pairs_pq = (~absent).sum(-1)
    pairs = target_positions * (target_positions + 1) // 2
    sum_wp = row_sums.gather(-1, places).masked_fill(absent, 0).sum(-1)
    sum_pq = target_row.masked_fill(absent, 0).sum(-1)
    sum_ww = row_sums.sum(-1) - sum_wp - sum_pq
    pairs_ww = (pairs - pairs_wp - pairs_pq).double().masked_fill(pairs_pq == 0, torch.nan)
    return FlowMeans(s_wp=sum_wp / pairs_wp, s_pq=sum_pq / pairs_pq, s_ww=sum_ww / pairs_ww)


def label_rows(batch: Batch) -> Tensor:
    """All tokens of the label words, [B, M], on the CPU; padded by ``ABSENT``."""
    first, end = batch.label_positions.cpu(), batch.label_ends.cpu()
    tokens = first[..., None] + torch.arange(int((end - first).max()))
    return tokens.masked_fill(tokens >= end[..., None], ABSENT).flatten(1)


ALL = slice(None)


class SaliencySink(Protocol):
    """Receives the saliency of one layer, one chunk of rows at a time."""

    def take(
        self, layer: int, rows: slice, keys: slice, saliency: Tensor, examples: slice = ALL
    ) -> None:
        """A chunk of Σ_h A ⊙ ∂L/∂A, of which I_l is the absolute value.

        ``saliency`` is [examples, rows, keys], float32, 0 for hidden keys; the sink may change it.
        """


class FlowSums:
    """A sink that accumulates the row sums and the target's row of every layer."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._tokens = batch.prefix_tokens + batch.input_ids.shape[1]
        self._row_sums: dict[int, Tensor] = {}
        self._target_rows: dict[int, Tensor] = {}

    def take(
        self, layer: int, rows: slice, keys: slice, saliency: Tensor, examples: slice = ALL
    ) -> None:
        """Add the contributions of a chunk, made positive, without the diagonal.

        The diagonal is a token's flow to itself.
        """
        saliency.abs_().diagonal(rows.start - keys.start, -2, -1).zero_()
        shape = (self._batch.size, self._tokens)
        sums = _kept(self._row_sums, layer, shape, saliency)
        target_rows = _kept(self._target_rows, layer, shape, saliency)
        sums[examples, rows] = saliency.sum(-1, dtype=torch.float64)
        target = self._batch.target_positions.to(saliency.device)[examples]
        here = ((target >= rows.start) & (target < rows.stop)).nonzero()[:, 0]
        picked = saliency[here, target[here] - rows.start].double()
        target_rows[examples, keys][here] = picked

    def means(self, layers: int) -> FlowMeans:
        """S_wp, S_pq, and S_ww of every layer as [L, B], float64, on the CPU.

        Raises
        ------
        InputError
            If a layer's gradient is missing, or all of them are zero or not finite.
        """
        row_sums, target_rows = self._checked(layers)
        return self._means_at(label_rows(self._batch), row_sums, target_rows)

    def _checked(self, layers: int) -> tuple[Tensor, Tensor]:
        """Row sums and target rows, each [L, B, T], float64, on the CPU; see :meth:`means`."""
        if sorted(self._row_sums) != list(range(layers)):
            raise InputError(
                f"the gradients of {layers - len(self._row_sums)} of {layers} layers are missing: "
                "this model does not pass its attention through the attention interface; "
                "choose a supported architecture."
            )
        row_sums = torch.stack([self._row_sums[layer].cpu() for layer in range(layers)])
        target_rows = torch.stack([self._target_rows[layer].cpu() for layer in range(layers)])
        total = row_sums.sum((0, 2))
        if not bool(torch.isfinite(total).all() & (total > 0).all()):
            raise InputError(
                "the saliency of a prompt is zero or not finite in all layers; "
                'try "dtype: float32" for this model.'
            )
        return row_sums, target_rows

    def _means_at(self, positions: Tensor, row_sums: Tensor, target_rows: Tensor) -> FlowMeans:
        """The means with ``positions`` [B, M] as the label positions."""
        positions = positions.expand(len(row_sums), -1, -1)
        entries = target_rows.gather(-1, positions.clamp(min=0))
        targets = self._batch.target_positions.cpu().expand(len(row_sums), -1)
        return flow_means(row_sums, entries, positions, targets)


class ControlSums(FlowSums):
    """A sink that also accumulates where the saliency of label words comes from."""

    def __init__(self, batch: Batch, kinds: TokenKinds) -> None:
        super().__init__(batch)
        self._kinds = kinds
        present = (kinds.label_rows != ABSENT).nonzero()
        self._example = present[:, 0]  # of each of the R label rows of the batch
        self._row = kinds.label_rows[present[:, 0], present[:, 1]]
        self._source = kinds.sources[present[:, 0], present[:, 1]].to(batch.input_ids.device)
        self._by_source: dict[int, Tensor] = {}  # [R, sources] of each layer

    def take(
        self, layer: int, rows: slice, keys: slice, saliency: Tensor, examples: slice = ALL
    ) -> None:
        """Add the contributions of a chunk, without the diagonal."""
        super().take(layer, rows, keys, saliency, examples)
        shape = (len(self._row), len(SOURCES))
        sums = _kept(self._by_source, layer, shape, saliency)
        first = examples.start or 0
        inside = (self._row >= rows.start) & (self._row < rows.stop)
        inside &= (self._example >= first) & (self._example < first + len(saliency))
        (found,) = inside.nonzero(as_tuple=True)
        if not len(found):
            return
        at = (self._example[found] - first, self._row[found] - rows.start)
        picked = saliency[at[0].to(saliency.device), at[1].to(saliency.device)]
        found = found.to(saliency.device)
        source = self._source.to(saliency.device)[found, keys]
        for order in range(len(SOURCES)):
            of_source = picked.masked_fill(source != order, 0)
            sums[found, order] = of_source.sum(-1, dtype=torch.float64)

    def columns(self, layers: int) -> dict[str, Tensor]:
        """All measured columns of ``SALIENCY``, each [L, B], float64; NaN where undefined.

        Raises
        ------
        InputError
            As :meth:`FlowSums.means`.
        """
        row_sums, target_rows = self._checked(layers)
        kinds = self._kinds
        columns = dict(self._means_at(kinds.label_rows, row_sums, target_rows)._asdict())
        for name, positions in kinds.matched.items():
            matched = self._means_at(positions, row_sums, target_rows)
            columns |= {f"{key}_{name}": value for key, value in matched._asdict().items()}
        of_kind = {
            name: (kinds.kinds == order).double() for order, name in enumerate(KINDS)
        }  # each [B, T]
        for name, tokens in of_kind.items():
            columns[f"target_{name}"] = (target_rows * tokens).sum(-1) / tokens.sum(-1)
        pairs = kinds.label_rows.clamp(min=0).sum(-1)
        by_source = torch.stack([self._by_source[layer].cpu() for layer in range(layers)])
        sums = torch.zeros(layers, self._batch.size, len(SOURCES), dtype=torch.float64)
        sums.index_add_(1, self._example, by_source)
        for order, name in enumerate(SOURCES):
            columns[f"wp_{name}"] = sums[..., order] / pairs
        per_token = row_sums / torch.arange(row_sums.shape[-1]).clamp(min=1)
        for name in KINDS_INTO:
            tokens = of_kind[name]
            columns[f"into_{name}"] = (per_token * tokens).sum(-1) / tokens.sum(-1)
        return columns


def _kept(kept: dict[int, Tensor], layer: int, shape: tuple[int, int], like: Tensor) -> Tensor:
    """The sums of a layer, float64; zeros at first."""
    if layer not in kept:
        kept[layer] = torch.zeros(shape, dtype=torch.float64, device=like.device)
    return kept[layer]


class Saliency:
    """The intervention that reports I_l to a sink during the backward pass."""

    def __init__(self, sink: SaliencySink) -> None:
        self._sink = sink
        self.leaves: dict[int, tuple[Tensor, Tensor]] = {}

    def attend(self, call: AttentionCall, _: Attention) -> Tensor:
        """Plain attention whose backward pass measures saliency; [B, H, T, D]."""
        shared = (None, None) if call.prefix is None else self._leaves(call, call.prefix)
        output: Tensor = _MeasuredAttention.apply(
            call.query, call.key, call.value, *shared, call, self._sink
        )
        return output

    def _leaves(self, call: AttentionCall, prefix: LayerPrefix) -> tuple[Tensor, Tensor]:
        """The prefix's keys and values, expanded per example to collect gradients."""
        if call.layer not in self.leaves:  # a recomputed layer keeps its leaves
            key, value = (
                shared.detach().expand(call.query.shape[0], -1, -1, -1).requires_grad_()
                for shared in (prefix.key, prefix.value)
            )
            self.leaves[call.layer] = (key, value)
        return self.leaves[call.layer]


class _MeasuredAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        prefix_key: Tensor | None,
        prefix_value: Tensor | None,
        call: AttentionCall,
        sink: SaliencySink,
    ) -> Tensor:
        ctx.save_for_backward(query, key, value, prefix_key, prefix_value)
        ctx.layer, ctx.how = call.layer, (call.scaling, call.sliding_window, call.softcap)
        ctx.sink = sink
        return plain_attention(call)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, prefix_key, prefix_value = ctx.saved_tensors
        before = 0
        if prefix_key is not None:
            before = prefix_key.shape[2]
            key, value = torch.cat([prefix_key, key], 2), torch.cat([prefix_value, value], 2)
        # Chunks multiply slices of these, which would be copied each time if not contiguous.
        output_gradient = gradients[0].contiguous()
        saved = (tensor.contiguous() for tensor in (query, key, value))
        call = AttentionCall(ctx.layer, *saved, *ctx.how)
        query_gradient = torch.empty_like(call.query)
        key_gradient, value_gradient = torch.zeros_like(call.key), torch.zeros_like(call.value)
        for start, stop in row_chunks(call):
            significance, *parts = attention_gradients(call, output_gradient, start, stop)
            keys = call.keys_of(start, stop)
            query_gradient[:, :, start:stop] = parts[0]
            key_gradient[:, :, keys] += parts[1]
            value_gradient[:, :, keys] += parts[2]
            rows = slice(start + before, stop + before)
            ctx.sink.take(call.layer, rows, keys, significance)
        own = (query_gradient, key_gradient[:, :, before:], value_gradient[:, :, before:])
        if not before:
            return *own, None, None, None, None
        return *own, key_gradient[:, :, :before], value_gradient[:, :, :before], None, None


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


class SharedSaliency:
    """Saliency of prompts with shared demonstrations, whose forward pass runs only once.

    Each example's loss has its own gradients with respect to the prefix's keys and values. They
    are collected in the backward pass of the queries; then the prefix's graph, which all examples
    share, runs backward once per example.
    """

    def __init__(self, model: PreTrainedModel, token_ids: Sequence[int]) -> None:
        self._model = model
        self._sink: SaliencySink | None = None
        self._example = 0
        self.prefix = compute_prefix(model, token_ids, Saliency(self), differentiable=True)

    def take(
        self, layer: int, rows: slice, keys: slice, saliency: Tensor, examples: slice = ALL
    ) -> None:
        """Forward the prefix's rows as those of the current example."""
        assert self._sink is not None
        example = slice(self._example, self._example + 1)
        self._sink.take(layer, rows, keys, saliency, example)

    def measure(self, batch: Batch, sink: SaliencySink) -> None:
        """Run one batch of queries; every layer reports its saliency to ``sink``."""
        queries = Saliency(sink)
        with intervene(self.prefix, queries):
            label_loss(label_logits(self._model, batch), batch).backward()
        self._sink = sink
        shared = [self.prefix.layers[layer] for layer in queries.leaves]
        outputs = [tensor for layer in shared for tensor in (layer.key, layer.value)]
        gradients: list[Any] = [leaf.grad for pair in queries.leaves.values() for leaf in pair]
        for self._example in range(batch.size):
            own = [gradient[self._example, None] for gradient in gradients]
            with intervene(Saliency(self)):
                torch.autograd.backward(outputs, own, retain_graph=True)


def cost(prompts: Prompts, spec: Mapping[str, Any], _: int) -> Cost:
    """Every prompt forward and backward; demonstrations that are shared forward once."""
    shared = spec["demonstrations"] == "fixed"
    return Cost(prompts.once if shared else prompts.whole, prompts.whole, whole=True)


def measure_saliency(
    model: PreTrainedModel,
    prompts: pl.DataFrame,
    batch_tokens: int,
    demonstrations: str = "per_example",
    examples: Collection[int] | None = None,
) -> pl.DataFrame:
    """S_wp, S_pq, and S_ww of every layer for every runnable prompt, with their controls.

    Parameters
    ----------
    prompts : DataFrame
        ``PROMPTS`` of one model, task, and seed.
    batch_tokens : int
        Upper bound on tokens per batch, demonstrations included; does not affect the results.
    demonstrations : str
        ``per_example`` ([A]'s protocol) or ``fixed``.
    examples : collection of int, optional
        Measure only these test texts; does not affect their results.

    Returns
    -------
    DataFrame
        Columns of ``SALIENCY``, ordered by example and layer.

    Raises
    ------
    InputError
        If gradients are missing, zero, or not finite.
    """
    chosen = taken_together(runnable(prompts, demonstrations))
    measured = among(chosen, examples)
    parts = [pl.DataFrame(schema=frame_schema(SALIENCY))]
    if measured.is_empty():
        return parts[0]
    report: Callable[[Batch, SaliencySink], None] = partial(batch_saliency, model)
    before = 0
    if demonstrations == "fixed":
        shared = SharedSaliency(model, shared_token_ids(chosen))
        report, before = shared.measure, shared.prefix.tokens
        longest = int(measured["tokens"].to_numpy().max())
        batch_tokens = batch_tokens * (longest - before) // longest
    layers: int = model.config.get_text_config().num_hidden_layers
    keys = prompts.select("model", "task", "seed").row(0, named=True)
    rows_of = {row["example"]: row for row in measured.iter_rows(named=True)}

    def measure(batch: Batch) -> pl.DataFrame:
        sink = ControlSums(batch, kinds_with_controls([rows_of[e] for e in batch.examples]))
        report(batch, sink)
        return _rows(batch.examples, layers, sink.columns(layers), keys)

    budget = Budget(batch_tokens)
    with tqdm(total=len(measured), desc="saliency", unit="example", mininterval=1) as progress:
        for batch, rows in run_batches(measured, budget, model.device, measure, before):
            parts.append(rows)
            progress.update(batch.size)
    return pl.concat(parts).sort("example", "layer")


def kinds_with_controls(prompts: Sequence[Mapping[str, Any]]) -> TokenKinds:
    """The kinds of tokens of rows of ``PROMPTS``, with the matched positions ``MATCHED``."""
    matched = {
        name: [matched_positions(prompt, name, text_draw(prompt)) for prompt in prompts]
        for name in MATCHED
    }
    return TokenKinds.of(prompts, matched)


def text_draw(prompt: Mapping[str, Any]) -> np.random.Generator:
    """The draw of text tokens; with fixed demonstrations, the same for all prompts of a seed."""
    fixed = prompt["demonstrations"] == "fixed"
    own = () if fixed else (prompt["example"],)
    return generator(prompt["seed"], task_of(prompt["task"]), "saliency", "text", *own)


def _rows(
    examples: Sequence[int],
    layers: int,
    columns: Mapping[str, Tensor],
    keys: Mapping[str, str | int],
) -> pl.DataFrame:
    frame = pl.DataFrame(
        {
            "example": [example for _ in range(layers) for example in examples],
            "layer": [layer for layer in range(layers) for _ in examples],
            **{name: values.flatten().numpy() for name, values in columns.items()},
        }
    )
    return keyed(frame.with_columns(pl.col(list(columns)).fill_nan(None)), keys, SALIENCY)
