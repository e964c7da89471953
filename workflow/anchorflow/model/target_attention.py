"""Attention heads at the target: to what they attend, and what they write, as far as the logits.

The output of a head, o = Σ_j α_j v_j, passes the layer's output projection W_O, in some families a
norm after it, and at the end the final norm and the unembedding U. With the scales of these norms
as they are in the intact run, all of this is linear, so that a head's direct effect on a logit is a
sum over the tokens that it attends to.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import (
    Attention,
    AttentionCall,
    Intervention,
    attention_rows,
    check_layers,
    intervene,
)
from anchorflow.model.batches import Batch
from anchorflow.model.layer_kinds import attention_layers
from anchorflow.model.layers import attending_layers, decoder_layers
from anchorflow.model.logits import target_logits
from anchorflow.model.prefix import Prefix
from anchorflow.model.run_again import preceding_in_force

_PROBE_TOKENS = 4
_NO_PROJECTION = "the projection behind the heads is not found in every layer"
_CLOSE = 0.02  # relative to the residual stream, which may be in bfloat16


class RecordOutputs:
    """The intervention that records heads' outputs at the last token, [B, H, D] by layer."""

    def __init__(self) -> None:
        self.found: dict[int, Tensor] = {}

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        output = attention(call)
        self.found[call.layer] = output[:, :, -1].float()  # means of few bits would be rough
        return output


class RecordSums:
    """The intervention that adds up heads' outputs over all rows of all calls, [H, D] by layer.

    ``real``, [B, T], is true at rows that are no padding; by default, everywhere.
    """

    def __init__(self, real: Tensor | None = None) -> None:
        self._real = real
        self.sums: dict[int, Tensor] = {}

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        output = attention(call)
        counted = output.float()
        if self._real is not None:
            counted = counted * self._real.to(output.device)[:, None, :, None]
        self.sums[call.layer] = counted.sum((0, 2))
        return output


class ReplaceOutputs:
    """The intervention that replaces outputs of heads, at the last token or at all.

    ``outputs`` of each layer are [B, H, D], or [H, D] for the same at all examples. Only those of
    ``heads`` are replaced.
    """

    def __init__(
        self,
        outputs: Mapping[int, Tensor],
        heads: Mapping[int, Sequence[int]],
        everywhere: bool = False,
    ) -> None:
        self._outputs, self._heads = outputs, heads
        self._rows = slice(None) if everywhere else slice(-1, None)

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        """The output of the layer with other outputs of some heads, [B, H, T, D]."""
        output = attention(call)
        heads = list(self._heads.get(call.layer, ()))
        if not heads:
            return output
        output = output.clone()
        other = self._outputs[call.layer][..., heads, :].to(output)
        output[:, heads, self._rows] = other.unsqueeze(-2).expand_as(output[:, heads, self._rows])
        return output


def means_over_classes(outputs: Tensor, classes: Tensor) -> Tensor:
    """For every prompt, the mean over classes of the mean outputs of the other prompts of a class.

    Classes count alike. Otherwise a prompt's class would be rarer among the others than among all,
    and heads that write for their prompt's class would write against it. For the same reason, a
    prompt that is the only one of its class is itself the mean of this class. ``outputs`` and the
    means are [B, ...], NaN for a single prompt; ``classes``, [B], are those of the true labels.
    """
    if len(outputs) == 1:
        return torch.full_like(outputs, torch.nan)
    classes = classes.to(outputs.device)
    same = (classes[:, None] == classes).to(outputs)
    number = same.sum(1)
    itself = torch.eye(len(same), device=outputs.device)
    of_class = torch.where(number[:, None] > 1, same * (1 - itself) / (number - 1).clamp(1), itself)
    weights = torch.where(same > 0, of_class, 1 / number)
    return torch.einsum("bo,o...->b...", weights / weights.sum(1, keepdim=True), outputs)


@dataclass(frozen=True)
class FrozenNorm:
    """A norm with a constant scale σ: x ↦ gain ⊙ c(x) / σ + bias, where c may center.

    ``gain`` and ``bias`` are [hidden], float32. If ``centered``, c subtracts the mean (LayerNorm),
    else it is the identity (RMSNorm).
    """

    gain: Tensor
    bias: Tensor
    centered: bool

    @classmethod
    def of(cls, norm: nn.Module, hidden: int, device: torch.device) -> "FrozenNorm":
        """From what a norm does to vectors of zeros, of ones, and of alternating sign."""
        exact = copy.deepcopy(norm).float()
        signs = torch.ones(hidden, device=device)
        signs[1::2] = -1  # mean 0 and variance 1
        zeros = torch.zeros_like(signs)
        bias, flat, alternating = (
            exact(vector[None, None])[0, 0] for vector in (zeros, zeros + 1, signs)
        )
        gain = (alternating - bias) * signs
        return cls(gain, bias, bool((flat - bias).abs().max() < 1e-3 * gain.abs().max()))

    def center(self, vectors: Tensor) -> Tensor:
        """c(x) of vectors [..., hidden]."""
        return vectors - vectors.mean(-1, keepdim=True) if self.centered else vectors

    def applied(self, vectors: Tensor) -> Tensor:
        """What becomes of vectors [..., hidden], for σ = 1 and without the bias."""
        return self.gain * self.center(vectors)

    def pulled_back(self, directions: Tensor) -> Tensor:
        """Directions [..., hidden] behind the norm as directions before it, for σ = 1."""
        return self.center(self.gain * directions)

    def inverse_scale(self, before: Tensor, after: Tensor) -> Tensor:
        """1 / σ of vectors [..., hidden], from what the norm made of them."""
        straight = self.applied(before.float())
        return ((after.float() - self.bias) * straight).sum(-1) / straight.square().sum(-1)


@dataclass(frozen=True)
class HeadWrites:
    """Where the heads of a model write: output projections, norms after them, and the final norm.

    Norms are given with their modules, at which scales are observed.
    """

    weights: Sequence[Tensor]  # of each layer, [H, D, hidden] in float32
    norms: Sequence[tuple[nn.Module, FrozenNorm] | None]  # after attention, of each layer
    final: tuple[nn.Module, FrozenNorm]

    def written(self, layer: int, outputs: Tensor) -> Tensor:
        """Heads' outputs [B, H, D] as vectors in the residual stream, [B, H, hidden], for σ = 1."""
        vectors = torch.einsum("bhd,hdm->bhm", outputs, self.weights[layer])
        norm = self.norms[layer]
        return vectors if norm is None else norm[1].applied(vectors)

    def directions(self, layer: int, unembedding: Tensor) -> Tensor:
        """Rows of U, [C, hidden], as directions of heads' outputs: [H, D, C], for σ = 1."""
        of_residual = self.final[1].pulled_back(unembedding.float())
        norm = self.norms[layer]
        if norm is not None:
            of_residual = norm[1].pulled_back(of_residual.to(norm[1].gain.device))
        weight = self.weights[layer]
        return weight @ of_residual.to(weight.device).T

    @contextmanager
    def observed_scales(self, rows: Tensor) -> Iterator["Scales"]:
        """Observe 1 / σ of all norms at one row of each example, [B]."""
        scales = Scales({}, [])

        def observe(key: int | None, norm: FrozenNorm, _: Any, args: Any, output: Tensor) -> None:
            at, preceding = rows.to(output.device), preceding_in_force()
            example = torch.arange(len(at), device=output.device)
            if preceding is not None:
                at = at + preceding.lengths.to(at.device)
            inverse = norm.inverse_scale(args[0][example, at], output[example, at]).cpu()
            if key is None:
                scales.final.append(inverse)
            else:
                scales.of_layer[key] = inverse

        with ExitStack() as hooks:
            for key, known in [(None, self.final), *enumerate(self.norms)]:
                if known is not None:
                    hook = known[0].register_forward_hook(partial(observe, key, known[1]))
                    hooks.enter_context(hook)
            yield scales


@dataclass(frozen=True)
class Scales:
    """Observed 1 / σ, on the CPU: after attention by layer, [B], and of the final norm."""

    of_layer: dict[int, Tensor]
    final: list[Tensor]  # of each use; the last one is that before the unembedding

    def before_residual(self, layer: int) -> Tensor:
        """What vectors of :meth:`HeadWrites.written` have to be multiplied with, [B]."""
        return self.of_layer.get(layer, torch.ones_like(self.final[-1]))

    def before_logits(self, layer: int) -> Tensor:
        """What products with :meth:`HeadWrites.directions` have to be multiplied with, [B]."""
        return self.before_residual(layer) * self.final[-1]


class RecordWrites:
    """The intervention that records what heads write at one row per example, by groups of tokens.

    ``directions``, [H, D, C] of each layer, are from :meth:`HeadWrites.directions`. ``rows``, [B],
    are the query rows. ``members``, [B, K, S], is 1 where a key belongs to one of S groups, else 0;
    keys are counted from the prefix's first.
    """

    def __init__(self, directions: Sequence[Tensor], rows: Tensor, members: Tensor) -> None:
        self._directions, self._rows, self._members = directions, rows, members
        self.outputs: dict[int, Tensor] = {}  # o, [B, H, D]
        self.effects: dict[int, Tensor] = {}  # Σ_j α_j v_j · direction, [B, H, S, C], for σ = 1
        self.attention: dict[int, Tensor] = {}  # Σ_j α_j, [B, H, S]

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        output = attention(call)
        rows = self._rows.to(output.device)
        weights = attention_rows(call, rows[:, None])[:, :, 0]  # [B, H, K]
        direction = self._directions[call.layer].to(output.device)
        by_group = direction.unflatten(0, (call.value.shape[1], -1))  # [G, H/G, D, C]
        parts = [call.value] if call.prefix is None else [call.prefix.value, call.value]

        def along(value: Tensor) -> Tensor:  # [B, G, H/G, K, C]
            of_heads = torch.einsum("bgkd,grdc->bgrkc", value.float(), by_group)
            return of_heads.expand(len(rows), -1, -1, -1, -1)

        # The parts are not kept beside the whole, which is large.
        written = torch.cat([along(part) for part in parts], 3).flatten(1, 2)  # [B, H, K, C]
        members = self._members.to(output.device)
        effects = torch.einsum("bhk,bhkc,bks->bhsc", weights, written, members)
        example = torch.arange(len(rows), device=output.device)
        self.outputs[call.layer] = output[example, :, rows].float().cpu()
        self.effects[call.layer] = effects.cpu()
        self.attention[call.layer] = torch.einsum("bhk,bks->bhs", weights, members).cpu()
        return output


class _Trace:
    """The intervention and the hooks that follow a short run through the model's modules."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.merged: dict[int, Tensor] = {}  # heads' outputs side by side, [1, T, H · D]
        self.heads: dict[int, int] = {}
        self.projections: dict[int, nn.Module] = {}
        self.norms: dict[int, nn.Module] = {}
        self.written: dict[int, Tensor] = {}
        self.unexplained: set[int] = set()  # layers that add something else to their input
        self.final: nn.Module | None = None
        self.last: Tensor | None = None  # the final norm's output
        self._branches: dict[int, list[Tensor]] = {}
        self._layers = attending_layers(model)
        self._inner = {module for layer in decoder_layers(model) for module in layer.modules()}
        self._decoder = model.get_decoder()

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        output = attention(call)
        self.merged[call.layer] = output.transpose(1, 2).flatten(2)
        self.heads[call.layer] = output.shape[1]
        return output

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Follow all modules of the decoder."""
        with ExitStack() as hooks:
            for number, layer in enumerate(self._layers):
                for module in layer.modules():
                    note = partial(self._end_layer if module is layer else self._note, number)
                    hooks.enter_context(module.register_forward_hook(note))
            for module in self._decoder.modules():
                if module not in self._inner and "norm" in type(module).__name__.lower():
                    hooks.enter_context(module.register_forward_hook(self._note_final))
            yield

    def _note(self, layer: int, module: nn.Module, args: Any, output: Any) -> None:
        if not (args and isinstance(args[0], Tensor) and isinstance(output, Tensor)):
            return
        merged = self.merged.get(layer)
        if merged is None:
            return
        self._branches.setdefault(layer, []).append(output)
        if layer not in self.projections:
            if args[0].shape == merged.shape and torch.equal(args[0], merged):
                self.projections[layer], self.written[layer] = module, output
        elif args[0] is self.written[layer] and "norm" in type(module).__name__.lower():
            self.norms[layer], self.written[layer] = module, output

    def _end_layer(self, layer: int, _: nn.Module, args: Any, output: Any) -> None:
        after = output[0] if isinstance(output, tuple) else output
        # Several residual streams are more entries than attention writes.
        if layer not in self.written or not args or after.numel() != self.written[layer].numel():
            self.unexplained.add(layer)
            return

        def later(of: Tensor) -> Tensor:  # tokens; activations of the first one may be massive
            return of.reshape(_PROBE_TOKENS, -1)[1:].float()

        rest = later(after) - later(args[0]) - later(self.written[layer])
        limit = _CLOSE * float(later(after).norm())
        branches = [of for of in self._branches[layer] if of.numel() == args[0].numel()]
        others = [torch.zeros_like(rest), *map(later, branches)]  # without an MLP, nothing
        if not any(float((other - rest).norm()) < limit for other in others):
            self.unexplained.add(layer)

    def finds_projections(self, depth: int) -> bool:
        """Whether what follows the heads is a plain projection in each of so many layers."""
        known = all(isinstance(m, nn.Linear | Conv1D) for m in self.projections.values())
        return known and len(self.projections) == depth

    def weight(self, layer: int) -> Tensor:
        """W_O of a layer, [H, D, hidden] in float32."""
        module: Any = self.projections[layer]
        weight = module.weight if isinstance(module, Conv1D) else module.weight.T
        by_head: Tensor = weight.float().unflatten(0, (self.heads[layer], -1))
        return by_head

    def _note_final(self, module: nn.Module, _: Any, output: Tensor) -> None:
        self.final, self.last = module, output


@torch.no_grad()
def output_projections(model: PreTrainedModel) -> list[Tensor]:
    """W_O of every layer, [H, D, hidden] in float32, found by following a run of a few tokens."""
    trace = _Trace(model)
    tokens = torch.arange(_PROBE_TOKENS, device=model.device)[None]
    with intervene(trace), trace.followed():
        model.base_model(tokens, use_cache=False)
    depth = len(attending_layers(model))
    if not trace.finds_projections(depth):
        raise InputError(
            f"{type(model).__name__}: {_NO_PROJECTION}; leave out methods of compression by value."
        )
    return [trace.weight(layer) for layer in range(depth)]


@torch.no_grad()
def find_writes(model: PreTrainedModel) -> HeadWrites:
    """Find where a model's heads write, by following a run of a few tokens.

    The run also shows whether a layer adds its attention and one other branch to its input, and
    whether logits are those of U behind the final norm. So an architecture that scales any of them
    is not measured wrongly.
    """
    trace = _Trace(model)
    tokens = torch.arange(_PROBE_TOKENS, device=model.device)[None]
    with intervene(trace), trace.followed():
        logits = model(input_ids=tokens, use_cache=False).logits
    depth, head = len(attending_layers(model)), model.get_output_embeddings()
    reason = None
    if not trace.finds_projections(depth):
        reason = _NO_PROJECTION
    elif trace.unexplained:
        place = attention_layers(model.config)[min(trace.unexplained)]
        reason = f"layer {place} does more than add its attention and its MLP"
    elif trace.final is None or trace.last is None or trace.last.shape[-1] != head.weight.shape[1]:
        reason = "there is no norm right before the unembedding"
    elif not _close(logits, _capped(model, head(trace.last))):
        reason = "its logits are not those of the unembedding behind the final norm"
    if reason is not None:
        raise InputError(
            f"{type(model).__name__}: {reason}, so that what single heads write is not known; "
            "leave out the analysis heads, and function in vectors.kinds."
        )
    assert trace.final is not None and trace.last is not None
    hidden = head.weight.shape[1]
    norms = [trace.norms.get(layer) for layer in range(depth)]

    def frozen(norm: nn.Module, output: Tensor) -> tuple[nn.Module, FrozenNorm]:
        return norm, FrozenNorm.of(norm, hidden, output.device)

    return HeadWrites(
        [trace.weight(layer) for layer in range(depth)],
        [None if n is None else frozen(n, trace.written[layer]) for layer, n in enumerate(norms)],
        frozen(trace.final, trace.last),
    )


def _capped(model: PreTrainedModel, logits: Tensor) -> Tensor:
    cap = getattr(model.config.get_text_config(), "final_logit_softcapping", None)
    return logits if cap is None else cap * torch.tanh(logits / cap)


def _close(found: Tensor, wanted: Tensor) -> bool:
    return bool((found.float() - wanted.float()).norm() <= _CLOSE * wanted.float().norm())


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
        check_layers(self._recorded, layers, "attention", "is")
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
    return recorded.stacked(len(attention_layers(model.config))), logits
