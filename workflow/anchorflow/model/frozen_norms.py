"""Norms whose scale is a constant in the backward pass (Edin et al. 2025, GIM).

Norms have many classes, so they are told by what they do: LayerNorm and RMSNorm map x to
b + w ⊙ Px / σ(x), where P subtracts the mean or nothing, and σ grows with x, so that multiplying x
changes nothing. Mean and σ may be those of groups of equal size. Their own forward pass runs, and
its output is kept bit by bit.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import GradientRule

Projection = Callable[[Tensor], Tensor]  # P, along the last axis


class Kind(NamedTuple):
    """What a norm does: P, and over how many groups of the last axis, each with a scale."""

    projection: Projection
    groups: int = 1

    def project(self, values: Tensor) -> Tensor:
        return self.projection(values.unflatten(-1, (self.groups, -1))).flatten(-2)

    def scale(self, output: Tensor, direction: Tensor) -> Tensor:
        """The factors of a direction that come nearest to the output, like ``output``."""
        own, along = (each.unflatten(-1, (self.groups, -1)) for each in (output, direction))
        squares = along.square().sum(-1, keepdim=True)
        factors: Tensor = (own * along).sum(-1, keepdim=True) / squares.clamp(min=1e-30)
        return factors.expand_as(own).flatten(-2)


# The kind of each module that has run, or None if it is no norm. What a module does stays the same.
_known: WeakKeyDictionary[nn.Module, Kind | None] = WeakKeyDictionary()


@contextlib.contextmanager
def norms_of(model: nn.Module, rule: GradientRule) -> Iterator[None]:
    """Hold the scales of a model's norms constant in gradients, if a rule says so.

    Forward passes in this context give what they give outside, bit by bit. A layer that is
    recomputed in the backward pass needs the context there, too. Norms that get a gate beside the
    states, as in mixers that carry a state, keep their gradient.

    Source: Edin et al. 2025.
    """
    with contextlib.ExitStack() as hooks:
        if rule.frozen_norms:
            for module in model.modules():
                if next(module.children(), None) is None:
                    hooks.enter_context(module.register_forward_hook(_freeze, with_kwargs=True))
        yield


def _freeze(module: nn.Module, args: tuple[Any, ...], named: dict[str, Any], found: Any) -> Any:
    """The output of a module, whose gradient is that with a constant scale if it is a norm."""
    states, *others = *args, *named.values(), None
    if others != [None] or not isinstance(states, Tensor) or not isinstance(found, Tensor):
        return found
    if found.shape != states.shape or not found.requires_grad or not found.numel():
        return found
    if module not in _known:
        _known[module] = _kind_of(module, states)
    kind = _known[module]
    # The graph of its own forward pass is dropped.
    return found if kind is None else _Frozen.apply(states, found.detach(), module, kind)


def _as_it_is(values: Tensor) -> Tensor:
    return values


def _centered(values: Tensor) -> Tensor:
    return values - values.mean(-1, keepdim=True)


@torch.no_grad()
def _kind_of(module: nn.Module, like: Tensor) -> Kind | None:
    """The kind of a norm; None for a module whose output changes when its input is multiplied."""
    random = torch.Generator().manual_seed(0)
    # Of usual size: larger ones would saturate a softmax or a sigmoid, which would not change then.
    values = torch.randn(like.shape, generator=random).to(like)
    output, multiplied = module.forward(values).float(), module.forward(4 * values).float()
    share = 1e-3 if torch.finfo(like.dtype).bits >= 32 else 0.03  # 16 bits round more
    tolerance = share * output.abs().max()
    if not bool((multiplied - output).abs().max() <= tolerance):
        return None
    size = like.shape[-1]
    # Fewest groups first, of two or more each: any output is a multiple of a single number.
    counts = [count for count in range(1, size // 2 + 1) if size % count == 0]
    for kind in (Kind(p, count) for count in counts for p in (_as_it_is, _centered)):
        weight, shift = _weight_and_shift(module, values, kind)
        direction = weight * kind.project(values.float())
        kept = shift + kind.scale(output - shift, direction) * direction
        if bool((kept - output).abs().max() <= tolerance):
            return kind
    raise InputError(
        f"{type(module).__name__}: this norm is neither like LayerNorm nor like RMSNorm, so that "
        "its scale can't be held constant; use the plain gradient for this model."
    )


def _weight_and_shift(norm: nn.Module, like: Tensor, kind: Kind) -> tuple[Tensor, Tensor]:
    """A multiple of w for every token, and b, from the outputs at ±1 in turn; float32."""
    signs = torch.ones_like(like)
    signs[..., ::2] = -1
    one, other = norm.forward(signs).float(), norm.forward(-signs).float()
    return (one - other) / 2 / kind.project(signs.float()), (one + other) / 2


class _Frozen(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, output: Tensor, norm: nn.Module, kind: Kind) -> Tensor:
        ctx.save_for_backward(states, output)
        ctx.norm, ctx.kind = norm, kind
        return output.view_as(output)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        states, output = ctx.saved_tensors
        with torch.no_grad():
            weight, shift = _weight_and_shift(ctx.norm, states, ctx.kind)
            direction = weight * ctx.kind.project(states.float())
            scale = ctx.kind.scale(output.float() - shift, direction)
            of_states = ctx.kind.project(weight * gradients[0].float()) * scale
        return of_states.to(states.dtype), None, None, None
