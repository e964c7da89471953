"""Where heads write, by the names of the families' modules, and outputs replaced by hooks."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from torch import Tensor, nn
from transformers import PreTrainedModel

from anchorflow.model.layers import attending_layers

PROJECTIONS = ("o_proj", "c_proj", "out_proj", "dense")
NORMED = ("gemma2", "gemma3", "olmo2")  # with norms behind attention and MLP


def attention_of(layer: nn.Module) -> nn.Module:
    """The module of a layer that has the output projection."""
    for name, module in layer.named_modules():
        attends = "att" in name.lower() or name == "temporal_block"
        if attends and any(hasattr(module, p) for p in PROJECTIONS):
            return module
    raise LookupError("no attention")


def projection_of(layer: nn.Module) -> nn.Module:
    attention = attention_of(layer)
    (name,) = (p for p in PROJECTIONS if hasattr(attention, p))
    projection: nn.Module = getattr(attention, name)
    return projection


def branches_of(layer: nn.Module, family: str) -> tuple[nn.Module, nn.Module]:
    """The modules whose outputs a layer adds to the residual stream: attention, and MLP."""
    if family in NORMED:
        return layer.post_attention_layernorm, layer.post_feedforward_layernorm  # type: ignore
    mlp = layer.fc2 if family == "opt" else layer.mlp
    return projection_of(layer), mlp  # type: ignore


@contextmanager
def kept_outputs(modules: Mapping[str, nn.Module]) -> Iterator[dict[str, Tensor]]:
    """Outputs of modules by name."""
    kept: dict[str, Tensor] = {}

    def keep(name: str, output: Tensor) -> None:
        kept[name] = output

    hooks = [
        module.register_forward_hook(lambda _, __, output, name=name: keep(name, output))
        for name, module in modules.items()
    ]
    try:
        yield kept
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def heads_replaced(
    model: PreTrainedModel, layer: int, heads: list[int], size: int, instead: Tensor | None
) -> Iterator[list[Tensor]]:
    """Replace heads' outputs at the last token of each prompt by ``instead`` [B, heads, size].

    The list has the projection's input, [B, T, H · size], before the replacement.
    """
    seen: list[Tensor] = []

    def replace(_: nn.Module, args: tuple[Tensor]) -> tuple[Tensor]:
        seen.append(args[0])
        changed = args[0].clone()
        if instead is not None:
            by_head = changed[:, -1].unflatten(-1, (-1, size))
            by_head[:, heads] = instead
        return (changed,)

    hook = projection_of(attending_layers(model)[layer]).register_forward_pre_hook(replace)
    try:
        yield seen
    finally:
        hook.remove()
