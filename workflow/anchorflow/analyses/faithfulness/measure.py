"""Estimates of the effect of cutting edges, from saliency and attention (compare ``knockout``).

``saliency`` is I_l of [A] eq. 1, summed over the edges. ``gradient`` is minus the signed sum of
attention times gradient: to first order, the change of the loss when the edges are cut.
``integrated`` averages the gradient along a path on which one layer's attention is scaled from 0 to
its actual value (after Sundararajan et al. 2017, and Hao et al. 2021 for attention). ``gim`` is
``gradient`` with the backward pass of Edin et al. 2025.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from math import ceil
from typing import Any, NamedTuple

import polars as pl
import torch
from torch import Tensor
from tqdm import tqdm
from transformers import PreTrainedModel

from anchorflow.analyses.faithfulness import FAITHFULNESS
from anchorflow.analyses.faithfulness.patching import measure_patching
from anchorflow.analyses.flow.measure import ALL, FlowSums, batch_saliency, label_loss
from anchorflow.analyses.knockout.measure import CellEdges
from anchorflow.model.attention_function import (
    RULES,
    Attention,
    AttentionCall,
    chunk_probabilities,
    intervene,
    mixed_rows,
    row_chunks,
)
from anchorflow.model.batches import Batch, Budget, among, run_batches, runnable
from anchorflow.model.cell import Cell
from anchorflow.model.interventions import CUTS_AT_ONCE
from anchorflow.model.layer_kinds import attention_layers
from anchorflow.model.layers import keep_outputs, resume
from anchorflow.model.logits import label_logits, target_label_logits
from anchorflow.model.prefix import shared_token_ids
from anchorflow.model.size import Cost, Prompts
from anchorflow.prepare.label_words import taken_together
from anchorflow.prepare.positions import WHOLE_ROWS
from anchorflow.schemas.frames import frame_schema, keyed


class Named(NamedTuple):
    """A class of edges, or a draw of random ones in its place."""

    edges: str
    control: bool
    draw: int


def edges_named(classes: Sequence[str], draws: int) -> list[Named]:
    """All classes and draws, as in :func:`~anchorflow.analyses.knockout.measure.settings_of`."""
    kinds = [(False, 0), *((True, draw) for draw in range(draws))]
    return [
        Named(name, control, draw)
        for name in classes
        for control, draw in kinds
        if not (control and name in WHOLE_ROWS)
    ]


class EdgeSums(FlowSums):
    """A sink that sums saliency over sets of edges, with and without its signs.

    ``edges``, [E, B, T, T], are sets of edges of whole prompts, true where an edge belongs to it.
    """

    def __init__(self, batch: Batch, edges: Tensor) -> None:
        super().__init__(batch)
        self._edges = edges
        self.gradient: dict[int, Tensor] = {}  # layer to [E, B], float64
        self.saliency: dict[int, Tensor] = {}

    def take(
        self, layer: int, rows: slice, keys: slice, saliency: Tensor, examples: slice = ALL
    ) -> None:
        inside = self._edges[:, examples, rows, keys].to(saliency.device)
        # Before the parent, which makes the chunk positive in place.
        _add(self.gradient, layer, -summed(inside, saliency))
        super().take(layer, rows, keys, saliency, examples)
        _add(self.saliency, layer, summed(inside, saliency))


def summed(edges: Tensor, values: Tensor) -> Tensor:
    """Sums of values [B, R, K] over sets of edges [E, B, R, K]: [E, B], float64, on the CPU."""
    sums = [values.masked_fill(~inside, 0).sum((1, 2), dtype=torch.float64) for inside in edges]
    return torch.stack(sums).cpu()


def _add(sums: dict[int, Tensor], layer: int, value: Tensor) -> None:
    sums[layer] = sums[layer] + value if layer in sums else value


class AttentionSums:
    """The intervention that sums attention over sets of edges, without changing it."""

    def __init__(self, edges: Tensor) -> None:
        self._edges = edges
        self.attention: dict[int, Tensor] = {}  # layer to [E, B], float64

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        """Sum the layer's attention, averaged over heads; returns its output, [B, H, T, D]."""
        for start, stop in row_chunks(call):
            weights = chunk_probabilities(call, start, stop)
            mean = weights.unflatten(2, (-1, stop - start)).flatten(1, 2).mean(1)  # [B, rows, keys]
            inside = self._edges[:, :, start:stop, call.keys_of(start, stop)].to(mean.device)
            _add(self.attention, call.layer, summed(inside, mean))
        return attention(call)


class Scaled:
    """The intervention that scales one layer's attention and makes its weights a leaf of the graph.

    In this layer alone, memory is quadratic in the prompt's length.
    """

    def __init__(self, layer: int, share: float) -> None:
        self._layer, self._share = layer, share
        self.leaf: Tensor  # [B, H, T, T]: share · A

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        """The output of a layer, [B, H, T, D], with scaled attention in the chosen layer only."""
        if call.layer != self._layer:
            return attention(call)
        tokens, size = call.query.shape[2], call.query.shape[0]
        weights = call.query.new_zeros(size, call.query.shape[1], tokens, tokens).float()
        for start, stop in row_chunks(call):
            chunk = chunk_probabilities(call, start, stop).unflatten(2, (-1, stop - start))
            weights[:, :, start:stop, call.keys_of(start, stop)] = chunk.flatten(1, 2)
        self.leaf = (self._share * weights).detach().requires_grad_()
        return mixed_rows(call, self.leaf)


def integrated_sums(model: PreTrainedModel, batch: Batch, edges: Tensor, steps: int) -> Tensor:
    """Change of the loss when edges are cut, estimated by saliency integrated over the scale s.

    In each layer, attention is scaled by s, and the gradient is averaged over ``steps`` values of
    s, the midpoints of equal parts of [0, 1]. The change is −Σ A · mean over s of ∂L/∂(sA) over
    each of the sets ``edges``, [E, B, T, T], as [L, E, B], float64, in nats.

    Source: after Sundararajan et al. 2017 and Hao et al. 2021.
    """
    layers = len(attention_layers(model.config))
    # Below the scaled layer nothing changes, so every pass starts from its kept input.
    with keep_outputs(model, range(layers - 1)) as kept:
        target_label_logits(model, batch)
    sums = []
    for layer in range(layers):
        total = torch.zeros(edges.shape[:2], dtype=torch.float64)
        for point in range(steps):
            share = (point + 0.5) / steps
            scaled = Scaled(layer, share)
            with intervene(scaled):
                if layer == 0:
                    logits = label_logits(model, batch, from_embeddings=False)
                else:
                    with resume(model, kept[layer - 1]):
                        logits = label_logits(model, batch, from_embeddings=False)
                label_loss(logits, batch).backward()
            assert scaled.leaf.grad is not None
            # Dividing by the share gives the unscaled attention back.
            product = (scaled.leaf.detach() / share * scaled.leaf.grad).sum(1)
            total -= summed(edges, product) / steps
        sums.append(total)
    return torch.stack(sums)


def cost(prompts: Prompts, spec: Mapping[str, Any], depth: int) -> Cost:
    """Every prompt twice forward and backward, twice more forward, and in steps from each layer on.

    The further forward passes are for attention and for the inputs of integration. With
    transplants, the demonstrations of prompt and donor, and queries after each exchange.
    """
    inner = spec["steps"] * (depth + 1) / 2
    forward, backward = (4 + inner) * prompts.whole, (2 + inner) * prompts.whole
    if transplants := len(spec["transplants"]):
        runs = transplants * (depth + 1) / 2 + ceil(transplants * depth / CUTS_AT_ONCE)
        forward += 2 * prompts.demonstrations + (runs + 2) * prompts.asked
        backward += 2 * prompts.asked
    return Cost(forward, backward, whole=True)


def measure_faithfulness(
    model: PreTrainedModel,
    prompts: pl.DataFrame,
    classes: Sequence[str],
    draws: int,
    steps: int,
    batch_tokens: int,
    examples: Collection[int] | None = None,
    transplants: Sequence[str] = (),
    donor: str = "permuted",
) -> pl.DataFrame:
    """Estimates for each class of edges, and for equally many random ones, in every layer.

    Prompts that exceed the model's context are left out. ``classes`` are some of
    :data:`~anchorflow.prepare.positions.CLASSES`. With 0 ``steps`` of integration per layer,
    ``integrated`` is null. Rows of ``transplants`` are those of :func:`measure_patching`.
    """
    chosen = taken_together(runnable(prompts, "fixed"))
    measured = among(chosen, examples)
    parts = [pl.DataFrame(schema=frame_schema(FAITHFULNESS))]
    if measured.is_empty():
        return parts[0]
    of_cell = CellEdges(chosen, len(shared_token_ids(chosen)))
    named = [
        cut
        for cut in edges_named(classes, draws)
        if of_cell.anywhere(cut.edges, cut.draw if cut.control else None)
    ]
    keys = chosen.select("model", "task", "seed").row(0, named=True)
    measure = partial(_estimates, model, of_cell, named, steps, keys)
    budget = Budget(batch_tokens)
    with tqdm(total=len(measured), desc="faithfulness", unit="example", mininterval=1) as progress:
        for batch, rows in run_batches(measured, budget, model.device, measure):
            parts.append(rows)
            progress.update(batch.size)
    parts.append(measure_patching(model, prompts, transplants, donor, batch_tokens, examples))
    return pl.concat(parts).sort("example", "edges", "control", "draw", "layer")


def _estimates(
    model: PreTrainedModel,
    of_cell: CellEdges,
    named: Sequence[Named],
    steps: int,
    keys: Mapping[str, str | int],
    batch: Batch,
) -> pl.DataFrame:
    edges = torch.stack(
        [of_cell.of_whole(e.edges, e.draw if e.control else None, batch) for e in named]
    )
    layers = len(attention_layers(model.config))
    sums, attention = EdgeSums(batch, edges), AttentionSums(edges)
    batch_saliency(model, batch, sums)
    sums.means(layers)  # raises if a layer is missing or its saliency is zero
    gim = EdgeSums(batch, edges)
    batch_saliency(model, batch, gim, RULES["gim"])
    with intervene(attention):
        target_label_logits(model, batch)
    columns = {
        "saliency": sums.saliency,
        "gradient": sums.gradient,
        "attention": attention.attention,
        "gim": gim.gradient,
    }
    stacked = {name: torch.stack([of[at] for at in range(layers)]) for name, of in columns.items()}
    if steps:
        stacked["integrated"] = integrated_sums(model, batch, edges, steps)
    places = [
        (layer, each, example)
        for layer in range(layers)
        for each in named
        for example in batch.examples
    ]
    frame = pl.DataFrame(
        {
            "layer": [layer for layer, _, _ in places],
            "edges": [each.edges for _, each, _ in places],
            "control": [each.control for _, each, _ in places],
            "draw": [each.draw for _, each, _ in places],
            "example": [example for _, _, example in places],
            **{name: values.flatten().numpy() for name, values in stacked.items()},
        }
    )
    if not steps:
        frame = frame.with_columns(integrated=pl.lit(None, pl.Float64))
    return keyed(frame.with_columns(change=pl.lit(None, pl.Float64)), keys, FAITHFULNESS)


def measure(cell: Cell) -> None:
    how = {key: cell.spec[key] for key in ("classes", "draws", "steps", "transplants", "donor")}
    cell.measure(FAITHFULNESS, cost, partial(measure_faithfulness, **how))
