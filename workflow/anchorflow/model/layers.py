"""The layers of a model: found, run without the head, and resumed from kept outputs."""

import contextlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import attending, recomputed_alike
from anchorflow.model.layer_kinds import attention_layers, streams_first


def decoder_layers(model: PreTrainedModel) -> list[nn.Module]:
    """The layers of the text decoder, lowest first."""
    expected, attend = model.config.get_text_config().num_hidden_layers, set(attending(model))
    for part in model.modules():
        listed = isinstance(part, nn.ModuleList) and len(part) == expected
        if listed and not attend.isdisjoint(part.modules()):
            return list(part.children())
    raise InputError(
        f"{type(model).__name__}: no list of {expected} layers with attention is found in it; "
        "this architecture is not supported."
    )


def attending_layers(model: PreTrainedModel) -> list[nn.Module]:
    """Those of :func:`decoder_layers` that attend, in the order of their numbers."""
    layers = decoder_layers(model)
    return [layers[place] for place in attention_layers(model.config)]


def recompute_activations(model: PreTrainedModel) -> None:
    """Let backward passes recompute each layer's activations instead of keeping them.

    Only the layers' inputs stay in memory, at the cost of one more forward pass.
    """
    for layer in decoder_layers(model):
        layer.forward = partial(
            checkpoint,
            layer.forward,
            use_reentrant=False,
            preserve_rng_state=False,  # nothing is random in evaluation mode
            context_fn=recomputed_alike,
        )


def positions_from(input_ids: Tensor, first: int) -> Tensor:
    """Position ids [B, T], counted from ``first``."""
    tokens = input_ids.shape[1]
    return torch.arange(first, first + tokens, device=input_ids.device).expand_as(input_ids)


def run_layers(
    model: PreTrainedModel, input_ids: Tensor, first: int = 0, differentiable: bool = False
) -> None:
    """Run all layers, without the head, for the sake of the active interventions.

    The positions of ``input_ids``, [B, T], are counted from ``first``. If ``differentiable``, the
    autograd graph is kept from the token embeddings on.
    """
    with embeddings_as_leaves(model) if differentiable else torch.no_grad():
        model.base_model(input_ids, position_ids=positions_from(input_ids, first), use_cache=False)


@contextlib.contextmanager
def embeddings_as_leaves(model: PreTrainedModel) -> Iterator[None]:
    """Make the token embeddings the leaves of the autograd graph; all parameters are frozen."""

    def leaf(_: nn.Module, __: tuple[Tensor], output: Tensor) -> Tensor:
        return output.detach().requires_grad_().clone()  # which a model may scale in place

    with model.get_input_embeddings().register_forward_hook(leaf):
        yield


@dataclass(frozen=True)
class Resumed:
    """Where a forward pass can resume an earlier one: after ``layer``, with its ``output``.

    Layers that attend are counted, here and below. ``batch`` is the output's dimension of examples,
    which that of tokens follows.
    """

    layer: int
    output: Any
    batch: int = 0

    def repeated(self, times: int) -> "Resumed":
        """The same for a batch of one example, several times."""
        at = self.batch
        return self._with(lambda v: v.expand(*v.shape[:at], times, *v.shape[at + 1 :]))

    def select(self, rows: Tensor) -> "Resumed":
        """The same for some examples of the batch."""
        return self._with(lambda value: value.index_select(self.batch, rows.to(value.device)))

    def _with(self, change: Callable[[Tensor], Tensor]) -> "Resumed":
        def of(value: Any) -> Any:
            return change(value) if isinstance(value, Tensor) else value

        whole = isinstance(self.output, tuple)
        output = tuple(map(of, self.output)) if whole else of(self.output)
        return replace(self, output=output)


@contextlib.contextmanager
def keep_outputs(model: PreTrainedModel, layers: Collection[int]) -> Iterator[dict[int, Resumed]]:
    """Keep the outputs of some layers, so that other runs can :func:`resume` after them."""
    kept: dict[int, Resumed] = {}
    batch = int(streams_first(model.config))

    def keep(layer: int, _: nn.Module, __: Any, output: Any) -> None:
        kept[layer] = Resumed(layer, output, batch)

    every = attending_layers(model)
    with contextlib.ExitStack() as hooks:
        for layer in layers:
            hooks.enter_context(every[layer].register_forward_hook(partial(keep, layer)))
        yield kept


@contextlib.contextmanager
def resume(model: PreTrainedModel, resumed: Resumed) -> Iterator[None]:
    """Skip the layers up to ``resumed.layer`` and return its output, on the same input tokens.

    Where later layers attend to keys of earlier ones, the earlier layers run again for their keys.
    """
    below = decoder_layers(model)[: attention_layers(model.config)[resumed.layer] + 1]
    forwards = [layer.forward for layer in below]
    sharing = getattr(model.config.get_text_config(), "num_kv_shared_layers", 0)

    def last(*inputs: Any, **given: Any) -> Any:
        forwards[-1](*inputs, **given)
        return resumed.output

    if sharing:
        below[-1].forward = last
    else:
        for layer in below:
            layer.forward = lambda *_, **__: resumed.output
    try:
        yield
    finally:
        for layer, forward in zip(below, forwards, strict=True):
            layer.forward = forward
