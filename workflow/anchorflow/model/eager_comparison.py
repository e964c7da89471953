"""Comparison of a resolved model with itself under transformers' eager attention.

Layer by layer, both attention functions run in float32 on the same queries, keys and values, so
that they must agree. The whole model runs in its own dtype, where rounding can be large; its
difference is therefore compared with the effect of rounding alone on the same prompt.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import (
    Attention,
    AttentionCall,
    LayerPrefix,
    adopt,
    eager_in_float32,
    intervene,
    known_positions,
    plain_attention,
)
from anchorflow.model.layer_kinds import attention_layers
from anchorflow.model.layers import positions_from
from anchorflow.model.opening import open_model, read_card
from anchorflow.model.prefix import compute_prefix

log = logging.getLogger(__name__)

# Allowed difference of a layer's output in float32, relative to its largest entry.
_EXACT = 1e-4
# Allowed difference of a whole model, in units of the effect that rounding its embeddings, or its
# attention, once has on it. Random models of all families reach 1.1.
_ROUNDINGS = 2
_TOKENS = 48  # of a prompt
_BEYOND = 16  # tokens by which another prompt exceeds a sliding window
_LONGEST = 1100  # tokens of that prompt at most, to bound its time; longer windows are not exceeded
_REMEDY = "this architecture is not supported; choose one that docs/reference/models.md lists"


@torch.no_grad()
def check_against_eager(name: str, folder: str | Path) -> dict[str, float]:
    """Compare our attention, with and without a shared prefix, with eager attention.

    Prompts are random. If there is a sliding window, a prompt that exceeds it also runs, until one
    layer of each kind has been compared.

    ``attention`` is the largest difference of a layer's output in float32, on the same queries,
    keys and values, relative to the largest entry. ``model`` is the root mean square difference of
    the final hidden states, in the model's dtype, relative to their root mean square. ``rounding``
    is the same between two runs with eager attention that differ by rounding alone. It is an error
    if one differs by more than rounding explains.
    """
    cpu, card = torch.device("cpu"), read_card(folder)
    model = open_model(folder, cpu, eager=True)
    input_ids = _random_prompt(model, _TOKENS)
    half = input_ids.shape[1] // 2
    layers = _Layers()
    eager = _last_states(model, input_ids)
    with eager_in_float32(model, layers.observe):
        exact = _last_states(model, input_ids)
    _compare_beyond_windows(model, layers)
    with eager_in_float32(model, lambda *_: None), _embeddings_rounded_otherwise(model):
        rounded = _last_states(model, input_ids)
    _check_finite(name, eager, exact, rounded)
    kind = f"models.{name}: the attention of {card['architecture']} is not reproduced"
    # Here and below, "not … <=" rather than ">", which NaN would pass.
    wrong = next(
        (of_layer for of_layer in layers.differences if not of_layer.relative <= _EXACT), None
    )
    if wrong is not None:
        place = attention_layers(model.config)[wrong.layer]
        raise InputError(
            f"{kind}: in layer {place}{wrong.where}, its output differs by "
            f"{wrong.relative:.1e} from transformers' eager attention on the same queries, keys "
            f"and values in float32, where {_EXACT:.0e} is allowed; {_REMEDY}."
        )
    adopt(model)
    whole = _last_states(model, input_ids)
    prefix = compute_prefix(model, input_ids[0, :half].tolist())
    first = _FirstLayer()
    with intervene(prefix, first):
        after = _last_states(model, input_ids[:, half:], half)
    _check_finite(name, whole, after)
    eps = torch.finfo(getattr(torch, card["dtype"])).eps
    moved = max(
        _relative(prefix.layers[first.layer].key, layers.first.key[:, :, :half]),
        _relative(first.key, layers.first.key[:, :, half:]),
        _relative(first.query, layers.first.query[:, :, half:]),
    )
    if not moved <= max(_EXACT, eps):
        raise InputError(
            f"{kind}: with a shared prefix, queries and keys of the first layer differ by "
            f"{moved:.1e} from those of the whole prompt, where {max(_EXACT, eps):.0e} is allowed, "
            f"so their positions differ; {_REMEDY}."
        )
    difference = max(_relative(whole, exact), _relative(after, exact[half:]))
    rounding = max(_relative(eager, exact), _relative(rounded, exact))
    if not difference <= _ROUNDINGS * rounding + _EXACT:
        raise InputError(
            f"{kind}: the final hidden states differ by {difference:.1e} from those with eager "
            f"attention, while rounding in {card['dtype']} changes them by {rounding:.1e}; "
            f"{_REMEDY}."
        )
    attention = max(of_layer.relative for of_layer in layers.differences)
    return {"attention": attention, "model": difference, "rounding": rounding}


@dataclass(frozen=True)
class _Difference:
    layer: int
    where: str
    relative: float


class _FirstLayer:
    """The intervention that keeps the queries and keys of the first layer that runs."""

    def __init__(self) -> None:
        self.layer = -1
        self.query = self.key = torch.empty(0)  # [1, H, T, D] and [1, G, T, D]

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        if self.layer < 0:
            self.layer, self.query, self.key = call.layer, call.query, call.key
        return attention(call)


class _Layers:
    """Compares every layer's attention with eager attention on the same input."""

    def __init__(self) -> None:
        self.differences: list[_Difference] = []
        self.first = _FirstLayer()

    def observe(self, call: AttentionCall, expected: Tensor) -> None:
        """Compare the whole call, then its second half behind the first one as a prefix.

        ``expected``, [1, H, T, D], is the output of eager attention.
        """
        self.first.attend(call, lambda _: expected)
        window, half = call.sliding_window, call.query.shape[2] // 2
        kind = "" if window is None else f" (sliding window of {window} tokens)"
        kind += "" if call.chunk is None else f" (chunks of {call.chunk} tokens)"
        size = expected.abs().max()

        def compare(where: str, ours: Tensor, theirs: Tensor) -> None:
            relative = float((ours - theirs).abs().max() / size)
            self.differences.append(_Difference(call.layer, kind + where, relative))

        compare("", plain_attention(call), expected)
        if call.unselected is not None:
            return  # keys are selected among all of a prompt
        behind = replace(
            call,
            query=call.query[:, :, half:],
            key=call.key[:, :, half:],
            value=call.value[:, :, half:],
            prefix=LayerPrefix(call.key[:, :, :half], call.value[:, :, :half]),
        )
        compare(" behind a shared prefix", plain_attention(behind), expected[:, :, half:])


class _EveryKindSeen(Exception):  # noqa: N818
    """Ends a run once every kind of layer has been compared."""


def _compare_beyond_windows(model: PreTrainedModel, layers: _Layers) -> None:
    """Compare one layer of each kind with a prompt that exceeds a window of the configuration.

    Some architectures apply windows in their masks alone and pass none to the attention function.
    """
    config = model.config.get_text_config()
    names = ("sliding_window", "window_size", "attention_chunk_size")
    windows: list[int] = [n for name in names if (n := getattr(config, name, None))]
    kinds: Sequence[str] = getattr(config, "layer_types", None) or getattr(
        config, "attention_layers", [""] * config.num_hidden_layers
    )
    kinds = [kinds[place] for place in attention_layers(config)]
    for window in sorted(set(windows)):
        tokens = min(window + _BEYOND, known_positions(config))
        if not _TOKENS < tokens <= _LONGEST:
            continue
        left = set(kinds)

        def observe(call: AttentionCall, expected: Tensor, left: set[str] = left) -> None:
            if kinds[call.layer] in left:
                layers.observe(call, expected)
                left.remove(kinds[call.layer])
            if not left:
                raise _EveryKindSeen

        with suppress(_EveryKindSeen), eager_in_float32(model, observe):
            _last_states(model, _random_prompt(model, tokens))


@contextmanager
def _embeddings_rounded_otherwise(model: PreTrainedModel) -> Iterator[None]:
    """Move every entry of the embeddings at random by one unit of rounding, up, down or not."""
    random = torch.Generator().manual_seed(1)

    def round_otherwise(_: nn.Module, __: tuple[Tensor], output: Tensor) -> Tensor:
        signs = torch.randint(-1, 2, output.shape, generator=random)
        return output * (1 + signs * torch.finfo(output.dtype).eps).to(output.dtype)

    with model.get_input_embeddings().register_forward_hook(round_otherwise):
        yield


def _random_prompt(model: PreTrainedModel, tokens: int) -> Tensor:
    """Token ids [1, T], at most ``tokens`` of them."""
    config = model.config.get_text_config()
    random = torch.Generator().manual_seed(0)
    size = (1, min(known_positions(config), tokens))
    return torch.randint(0, config.vocab_size, size, generator=random)


def _last_states(model: PreTrainedModel, input_ids: Tensor, before: int = 0) -> Tensor:
    """Final hidden states of all tokens, [T, hidden], float32, at positions from ``before`` on."""
    own_base = model.base_model is model  # then it gives logits
    output = model.base_model(
        input_ids,
        position_ids=positions_from(input_ids, before),
        use_cache=False,
        output_hidden_states=own_base,
    )
    last = output.hidden_states[-1] if own_base else output.last_hidden_state
    states: Tensor = last[0].float()
    return states


def _relative(found: Tensor, expected: Tensor) -> float:
    """Root mean square difference of two tensors of one shape, relative to the second."""
    size = expected.float().norm().clamp(torch.finfo(torch.float32).tiny)  # 0 equals 0
    return float((found.float() - expected.float()).norm() / size)


def _check_finite(name: str, *states: Tensor) -> None:
    if not all(bool(torch.isfinite(state).all()) for state in states):
        raise InputError(
            f"models.{name}: its logits are not finite on a random prompt; replace its weights "
            'with a complete copy, or try "dtype: bfloat16" or "dtype: float32", which overflow '
            "later than float16."
        )
