"""Saliency of the information flows of [A] §2.1, in memory linear in the number of tokens.

I_l = |Σ_h A_{h,l} ⊙ ∂L/∂A_{h,l}| (eq. 1), where L is the cross-entropy of the true label among
the label words at the target position. Attention runs as one ``autograd.Function``: forward keeps
only queries, keys, and values; backward recomputes A in chunks of rows and immediately reduces
each chunk of I_l.

The same passes measure the controls: the flows at matched positions in place of the label words,
the target's row of I_l by kind of token, and the sources of S_wp.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import polars as pl
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from tqdm import tqdm
from transformers import PreTrainedModel

from anchorflow.analyses.flow import FLOW
from anchorflow.config.cell_names import task_of
from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import (
    PLAIN,
    RULES,
    Attention,
    AttentionCall,
    GradientRule,
    LayerPrefix,
    attention_gradients,
    intervene,
    plain_attention,
    row_chunks,
)
from anchorflow.model.batches import Batch, Budget, among, run_batches, runnable
from anchorflow.model.cell import Cell
from anchorflow.model.frozen_norms import norms_of
from anchorflow.model.layer_kinds import attention_layers, runs_again
from anchorflow.model.logits import label_logits
from anchorflow.model.prefix import compute_prefix, shared_token_ids
from anchorflow.model.size import Cost, Prompts
from anchorflow.prepare.label_words import taken_together
from anchorflow.prepare.positions import ABSENT, KINDS, SOURCES, TokenKinds, matched_positions
from anchorflow.random_draws import generator
from anchorflow.schemas.frames import frame_schema, keyed
from anchorflow.schemas.prompts import PROMPTS

MATCHED = ("text", "before", "after")
FROM_OWN_TEXT = ("label", "text", "before")  # of which the saliency of their own text is measured
KINDS_INTO = ("label", "text", "instruction")


class FlowMeans(NamedTuple):
    """S_wp, S_pq, and S_ww, in nats: each a mean over pairs of tokens (i, j) with j < i."""

    s_wp: Tensor
    s_pq: Tensor
    s_ww: Tensor


def flow_means(
    row_sums: Tensor, target_row: Tensor, label_positions: Tensor, target_positions: Tensor
) -> FlowMeans:
    """Mean significance of the three information flows of one layer.

    C_wp = {(p, j): j < p}, C_pq = {(q, p)}, C_ww = {(i, j): j < i} − C_wp − C_pq, where p are all
    tokens of the label words.

    ``row_sums``, [..., T], are Σ_{j<i} I_l(i, j) for each token i, zero after the target, and
    ``target_row``, [..., M], is I_l(q, p) for each of the ``label_positions``, [..., M], which
    ``ABSENT`` pads. ``target_positions``, [...], are q. The means, each [...], are float64, in
    nats, and NaN without any label position.

    Source: Wang et al. 2023, eq. 2-4.
    """
    if bool((label_positions >= target_positions[..., None]).any()):
        raise ValueError("a label position does not precede the target position")
    row_sums, target_row = row_sums.double(), target_row.double()
    absent = label_positions == ABSENT
    places = label_positions.masked_fill(absent, 0)
    pairs_wp = places.sum(-1)  # token p has p earlier tokens
    pairs_pq = (~absent).sum(-1)
    pairs = target_positions * (target_positions + 1) // 2
    sum_wp = row_sums.gather(-1, places).masked_fill(absent, 0).sum(-1)
    sum_pq = target_row.masked_fill(absent, 0).sum(-1)
    sum_ww = row_sums.sum(-1) - sum_wp - sum_pq
    pairs_ww = (pairs - pairs_wp - pairs_pq).double().masked_fill(pairs_pq == 0, torch.nan)
    return FlowMeans(s_wp=sum_wp / pairs_wp, s_pq=sum_pq / pairs_pq, s_ww=sum_ww / pairs_ww)


def label_rows(batch: Batch) -> Tensor:
    """Positions of all tokens of the label words, [B, M], on the CPU; padded by ``ABSENT``."""
    first, end = batch.label_positions.cpu(), batch.label_ends.cpu()
    tokens = first[..., None] + torch.arange(int((end - first).max()))
    return tokens.masked_fill(tokens >= end[..., None], ABSENT).flatten(1)


ALL = slice(None)


class SaliencySink(Protocol):
    """Receives the saliency of one layer, one chunk of rows at a time."""

    def take(
        self, layer: int, rows: slice, keys: slice, saliency: Tensor, examples: slice = ALL
    ) -> None:
        """Receive a chunk of Σ_h A ⊙ ∂L/∂A, whose absolute value is I_l.

        ``saliency``, [examples, rows, keys], float32, lies at these slices of the batch's prompts
        [B, T, T]. It is 0 for hidden keys, and the sink may change it in place.
        """


class FlowSums:
    """A sink that accumulates the row sums and the target's row of I_l in every layer."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._tokens = batch.prefix_tokens + batch.input_ids.shape[1]
        self._row_sums: dict[int, Tensor] = {}
        self._target_rows: dict[int, Tensor] = {}

    def take(
        self, layer: int, rows: slice, keys: slice, saliency: Tensor, examples: slice = ALL
    ) -> None:
        """Add a chunk of I_l, without its diagonal, which is the flow of tokens to themselves."""
        # In place: a chunk is the largest tensor here.
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
        """S_wp, S_pq, and S_ww of every layer as [L, B], float64, on the CPU."""
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
        """The three means, each [L, B], with ``positions`` [B, M] in place of label positions."""
        positions = positions.expand(len(row_sums), -1, -1)
        entries = target_rows.gather(-1, positions.clamp(min=0))
        targets = self._batch.target_positions.cpu().expand(len(row_sums), -1)
        return flow_means(row_sums, entries, positions, targets)


class ControlSums(FlowSums):
    """A sink that also accumulates saliency by its source, and of matched positions' own texts."""

    def __init__(self, batch: Batch, kinds: TokenKinds) -> None:
        super().__init__(batch)
        self._kinds = kinds
        positions = {**kinds.matched, "label": kinds.label_rows}
        present = {name: (positions[name] != ABSENT).nonzero() for name in FROM_OWN_TEXT}
        of_labels, device = present["label"], batch.input_ids.device
        self._example = torch.cat([at[:, 0] for at in present.values()])  # of R rows, labels first
        self._row = torch.cat([positions[n][at[:, 0], at[:, 1]] for n, at in present.items()])
        self._group = torch.repeat_interleave(torch.tensor([len(at) for at in present.values()]))
        self._own = torch.cat([kinds.own_text[n][at[:, 0], at[:, 1]] for n, at in present.items()])
        source = torch.full(self._own.shape, ABSENT, dtype=torch.int8)
        source[: len(of_labels)] = kinds.sources[of_labels[:, 0], of_labels[:, 1]]
        self._source, self._own_keys = source.to(device), self._own.to(device)
        self._by_source: dict[int, Tensor] = {}  # layer to [R, sources and own text]

    def take(
        self, layer: int, rows: slice, keys: slice, saliency: Tensor, examples: slice = ALL
    ) -> None:
        """Add a chunk, without its diagonal."""
        super().take(layer, rows, keys, saliency, examples)
        shape = (len(self._row), len(SOURCES) + 1)
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
        own = self._own_keys.to(saliency.device)[found, keys]
        sums[found, len(SOURCES)] = (picked * own).sum(-1, dtype=torch.float64)

    def columns(self, layers: int) -> dict[str, Tensor]:
        """All measured columns of ``FLOW``, each [L, B], float64, in nats; NaN where undefined."""
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
        # The pairs of S_wp, so that the parts of S_wp add up to it.
        pairs = kinds.label_rows.clamp(min=0).sum(-1)
        every = torch.stack([self._by_source[layer].cpu() for layer in range(layers)])
        sums = torch.zeros(layers, self._batch.size, every.shape[2], dtype=torch.float64)
        sums.index_add_(1, self._example, every)
        for order, name in enumerate(FROM_OWN_TEXT):
            of_name = self._group == order
            own = torch.zeros(layers + 1, self._batch.size, dtype=torch.float64)
            own[:layers].index_add_(1, self._example[of_name], every[:, of_name, len(SOURCES)])
            own[layers].index_add_(0, self._example[of_name], self._own[of_name].sum(1).double())
            columns[f"own_{name}"] = own[:layers] / own[layers]  # per pair
        for order, name in enumerate(SOURCES):
            columns[f"wp_{name}"] = sums[..., order] / pairs
        # The first token receives nothing; 1 in place of its 0 earlier tokens avoids 0/0.
        per_token = row_sums / torch.arange(row_sums.shape[-1]).clamp(min=1)
        for name in KINDS_INTO:
            tokens = of_kind[name]
            columns[f"into_{name}"] = (per_token * tokens).sum(-1) / tokens.sum(-1)
        return columns


def _kept(kept: dict[int, Tensor], layer: int, shape: tuple[int, int], like: Tensor) -> Tensor:
    """The sums of a layer in float64, which start at 0."""
    if layer not in kept:
        kept[layer] = torch.zeros(shape, dtype=torch.float64, device=like.device)
    return kept[layer]


class Saliency:
    """The intervention that reports I_l to a sink during the backward pass."""

    def __init__(self, sink: SaliencySink, rule: GradientRule = PLAIN) -> None:
        self._sink, self._rule = sink, rule
        self.leaves: dict[int, tuple[Tensor, Tensor]] = {}

    def attend(self, call: AttentionCall, _: Attention) -> Tensor:
        """The output of attention, [B, H, T, D], whose backward pass measures saliency."""
        shared = (None, None) if call.prefix is None else self._leaves(call, call.prefix)
        output: Tensor = _MeasuredAttention.apply(
            call.query, call.key, call.value, *shared, call, self._sink, self._rule
        )
        return output

    def _leaves(self, call: AttentionCall, prefix: LayerPrefix) -> tuple[Tensor, Tensor]:
        """The prefix's keys and values, [B, G, P, D], which collect gradients per example."""
        if call.layer not in self.leaves:  # a layer that is recomputed keeps its leaves
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
        rule: GradientRule,
    ) -> Tensor:
        ctx.save_for_backward(query, key, value, prefix_key, prefix_value)
        nothing = query.new_empty(0)  # the rest of the call must not keep tensors of the graph
        ctx.rest = replace(call, query=nothing, key=nothing, value=nothing, prefix=None)
        ctx.sink, ctx.rule = sink, rule
        return plain_attention(call)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, prefix_key, prefix_value = ctx.saved_tensors
        before = 0
        if prefix_key is not None:
            before = prefix_key.shape[2]
            key, value = torch.cat([prefix_key, key], 2), torch.cat([prefix_value, value], 2)
        # Chunks multiply slices of these; each would be copied if they were not contiguous.
        output_gradient = gradients[0].contiguous()
        query, key, value = (tensor.contiguous() for tensor in (query, key, value))
        call = replace(ctx.rest, query=query, key=key, value=value)
        query_gradient = torch.empty_like(call.query)
        key_gradient, value_gradient = torch.zeros_like(call.key), torch.zeros_like(call.value)
        for start, stop in row_chunks(call):
            significance, *parts = attention_gradients(call, output_gradient, start, stop, ctx.rule)
            keys = call.keys_of(start, stop)
            query_gradient[:, :, start:stop] = parts[0]
            key_gradient[:, :, keys] += parts[1]
            value_gradient[:, :, keys] += parts[2]
            rows = slice(start + before, stop + before)
            ctx.sink.take(call.layer, rows, keys, significance)
        unshared = (query_gradient, key_gradient[:, :, before:], value_gradient[:, :, before:])
        shared = (key_gradient[:, :, :before], value_gradient[:, :, :before])
        return *unshared, *(shared if before else (None, None)), None, None, None


def label_loss(logits: Tensor, batch: Batch) -> Tensor:
    """L: cross-entropy of the true label among the label words, summed over the batch, in nats.

    A sum, so that an example's gradients do not depend on the size of its batch. ``logits`` [B, C]
    are those of the label words' first tokens.
    """
    return cross_entropy(logits, batch.labels.to(logits.device), reduction="sum")


def batch_saliency(
    model: PreTrainedModel, batch: Batch, sink: SaliencySink, rule: GradientRule = PLAIN
) -> None:
    """Run a batch forward and backward; every layer reports its saliency to ``sink``."""
    with intervene(Saliency(sink, rule)), norms_of(model, rule):
        loss = label_loss(label_logits(model, batch), batch)
        loss.backward()


class SharedSaliency:
    """Saliency of prompts with shared demonstrations, whose forward pass runs only once.

    The loss of each example has gradients of its own with respect to the prefix's keys and values.
    The backward pass of the queries collects them; then the prefix's graph, which all examples
    share, runs backward once per example.
    """

    def __init__(
        self, model: PreTrainedModel, token_ids: Sequence[int], rule: GradientRule = PLAIN
    ) -> None:
        self._model, self._rule = model, rule
        self._sink: SaliencySink | None = None
        self._example = 0
        with norms_of(model, rule):
            own = Saliency(self, rule)
            self.prefix = compute_prefix(model, token_ids, own, differentiable=True)

    def take(
        self, layer: int, rows: slice, keys: slice, saliency: Tensor, examples: slice = ALL
    ) -> None:
        """Pass the prefix's rows on to the sink, as those of the current example."""
        assert self._sink is not None
        example = slice(self._example, self._example + 1)
        self._sink.take(layer, rows, keys, saliency, example)

    def measure(self, batch: Batch, sink: SaliencySink) -> None:
        """Run a batch of queries forward and backward; layers report saliency to ``sink``."""
        queries, frozen = Saliency(sink, self._rule), norms_of(self._model, self._rule)
        with intervene(self.prefix, queries), frozen:
            label_loss(label_logits(self._model, batch), batch).backward()
        self._sink = sink
        shared = [self.prefix.layers[layer] for layer in queries.leaves]
        outputs = [tensor for layer in shared for tensor in (layer.key, layer.value)]
        gradients: list[Any] = [leaf.grad for pair in queries.leaves.values() for leaf in pair]
        for self._example in range(batch.size):
            of_example = [gradient[self._example, None] for gradient in gradients]
            with intervene(Saliency(self, self._rule)), norms_of(self._model, self._rule):
                # All examples of all batches need the prefix's graph.
                torch.autograd.backward(outputs, of_example, retain_graph=True)


def cost(prompts: Prompts, spec: Mapping[str, Any], _: int) -> Cost:
    """Every prompt forward and backward; shared demonstrations forward only once."""
    shared = spec["demonstrations"] == "fixed"
    return Cost(prompts.once if shared else prompts.whole, prompts.whole, whole=True)


def measure_flow(
    model: PreTrainedModel,
    prompts: pl.DataFrame,
    batch_tokens: int,
    demonstrations: str = "per_example",
    examples: Collection[int] | None = None,
    gradient: str = "plain",
) -> pl.DataFrame:
    """S_wp, S_pq, and S_ww in every layer, with their controls, for every prompt.

    Prompts that exceed the model's context are left out. ``gradient`` is one of ``RULES``.

    Source: Wang et al. 2023, eq. 1-4.
    """
    chosen = taken_together(runnable(prompts, demonstrations))
    measured = among(chosen, examples)
    parts = [pl.DataFrame(schema=frame_schema(FLOW))]
    if measured.is_empty():
        return parts[0]
    rule = RULES[gradient]
    report: Callable[[Batch, SaliencySink], None] = partial(batch_saliency, model, rule=rule)
    before = 0
    # A state's gradient with respect to the demonstrations is not kept: prompts run whole.
    if demonstrations == "fixed" and not runs_again(model.config):
        shared = SharedSaliency(model, shared_token_ids(chosen), rule)
        report, before = shared.measure, shared.prefix.tokens
        # The bound counts demonstrations too, but batches are of queries alone.
        longest = int(measured["tokens"].to_numpy().max())
        batch_tokens = batch_tokens * (longest - before) // longest
    layers = len(attention_layers(model.config))
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
    """Kinds of tokens in rows of ``PROMPTS``, and the positions matched to label words."""
    matched = {
        name: [matched_positions(prompt, name, text_draw(prompt)) for prompt in prompts]
        for name in MATCHED
    }
    return TokenKinds.of(prompts, matched)


def text_draw(prompt: Mapping[str, Any]) -> np.random.Generator:
    """The generator of matched text tokens: one draw per seed if demonstrations are fixed."""
    fixed = prompt["demonstrations"] == "fixed"
    example = () if fixed else (prompt["example"],)
    return generator(prompt["seed"], task_of(prompt["task"]), "saliency", "text", *example)


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
    return keyed(frame.with_columns(pl.col(list(columns)).fill_nan(None)), keys, FLOW)


def measure(cell: Cell) -> None:
    spec, prompts = cell.spec, cell.read("prompts", PROMPTS)
    examples = cell.examples(prompts)
    run = among(runnable(prompts, spec["demonstrations"]), examples)
    model = cell.model(run, cost, spec)
    how = spec["demonstrations"], examples, spec["gradient"]
    flow = measure_flow(model, prompts, cell.batch_tokens, *how)
    cell.write(FLOW, flow, cell.described(flow=spec))
