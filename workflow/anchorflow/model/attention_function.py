"""One attention function for every model, and the interventions on it.

transformers can run a model with a custom attention function, registered by name. Ours builds the
causal and sliding-window mask itself, from the positions of queries and keys alone, so a model
that uses it can't run non-causally by accident. Batches are padded on the right: no real token
ever attends to padding, so no padding mask is needed and padding can't change a number.

An experiment changes attention by an :class:`Intervention`, which is active within a
``with intervene(...)`` block.
"""

import contextlib
import copy
import inspect
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from types import CodeType, MethodType
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from anchorflow.config.errors import InputError
from anchorflow.model.layer_kinds import attention_layers, runs_again, selects_keys

IMPLEMENTATION = "anchorflow"
SELECTING = "anchorflow_selecting"  # the same for layers that select keys, from a causal mask
_CONTEXT_OF_BLOOM = 2048  # whose configurations may name none
_UNLIMITED = 2**31 - 1
_NUMBER = "attention_layer"  # attribute of modules in hybrid models: which attention layer it is


@dataclass(frozen=True)
class LayerPrefix:
    """Keys and values of the tokens that precede all queries of a batch, in one layer.

    If only some of the tokens are kept, ``positions`` holds theirs, for all heads or for each one.
    """

    key: Tensor  # [1, G, P, D]
    value: Tensor  # [1, G, P, D]
    positions: Tensor | None = None  # [1 or G, P]

    @property
    def tokens(self) -> int:
        """P: number of tokens."""
        return self.key.shape[2]

    def map(self, function: Callable[[Tensor], Tensor]) -> "LayerPrefix":
        """The same function of keys and of values; the result has no ``positions``."""
        return LayerPrefix(function(self.key), function(self.value))


@dataclass(frozen=True)
class Positions:
    """Positions of queries and keys in their prompts, if these are not consecutive."""

    query: Tensor  # [1 or B, T]
    key: Tensor  # [1 or B, 1 or G, K]; PADDING for a padding key


# Scores in one chunk of query rows. On a CPU, 2 MiB in float32 stay within its cache; on a GPU,
# reading 64 MiB takes several times as long as launching a kernel.
_IN_CACHE = 2**19
_ON_GPU = 2**24
_CHUNK_BYTES = 24  # per element: at most six float32 matrices at once, in backward with a softcap

OF_WHOLE_PROMPTS = (
    "this model selects by itself the tokens that it attends to, among all of a prompt; leave out "
    "what lets tokens attend to kept keys, such as compression."
)

PADDING = 2**62  # after every query; a power of two, exact in the floats that torch pads with


@dataclass(frozen=True)
class AttentionCall:
    """The arguments that one layer gives its attention function.

    Keys are counted from the prefix's first key, if there is a prefix. Without ``positions``, the
    queries belong to the last T of the K tokens.

    ``sinks`` are learned scores that share in the softmax and stand for no token, so that a row of
    attention sums to less than 1. ``position_bias`` is added to the scores of the keys at each
    position (ALiBi). In chunked attention, tokens attend only to those of their own ``chunk``.
    ``unselected`` is true at keys that a row of a sparse layer leaves out.
    """

    layer: int
    query: Tensor  # [B, H, T, D]
    key: Tensor  # [B, G, K - P, D]
    value: Tensor  # [B, G, K - P, D]
    scaling: float
    sliding_window: int | None = None
    softcap: float | None = None
    chunk: int | None = None
    sinks: Tensor | None = None  # [H]
    position_bias: Tensor | None = None  # [H, positions]
    unselected: Tensor | None = None  # [1 or B, 1 or G, T, K]
    prefix: LayerPrefix | None = None
    positions: Positions | None = None

    @property
    def prefix_tokens(self) -> int:
        """P; 0 without a prefix."""
        return 0 if self.prefix is None else self.prefix.tokens

    @property
    def keys(self) -> int:
        """K: number of keys, including those of the prefix."""
        return self.prefix_tokens + self.key.shape[2]

    @property
    def offset(self) -> int:
        """Index of the key that belongs to the first query row."""
        return self.keys - self.query.shape[2]

    def keys_of(self, start: int, stop: int) -> slice:
        """The keys that at least one of the query rows ``start:stop`` may attend to."""
        if self.positions is not None:
            return slice(0, self.keys)
        offset = self.offset
        first = 0 if self.sliding_window is None else start + offset - self.sliding_window + 1
        if self.chunk is not None:
            first = max(first, (start + offset) // self.chunk * self.chunk)
        return slice(max(0, first), stop + offset)

    def hidden(self, start: int, stop: int) -> Tensor:
        """True where a query row may not attend to one of :meth:`keys_of`.

        The result is [1 or B, 1 or G, rows, keys].
        """
        rows = torch.arange(start, stop, device=self.query.device)
        return self.hidden_from(rows[None], self.keys_of(start, stop))

    def hidden_from(self, rows: Tensor, keys: slice) -> Tensor:
        """True where one of the query ``rows`` [1 or B, R] may not attend to one of ``keys``.

        The result is [1 or B, 1 or G, R, keys].
        """
        if self.positions is None:
            query = rows + self.offset
            key = torch.arange(keys.start, keys.stop, device=rows.device)[None, None]
        else:
            there = self.positions.query.to(rows.device)
            batch = max(len(rows), len(there))
            query = there.expand(batch, -1).gather(1, rows.expand(batch, -1))
            key = self.positions.key.to(rows.device)[:, :, keys]
        query, key = query[:, None, :, None], key[:, :, None, :]
        hidden = key > query
        if self.sliding_window is not None:
            hidden |= key <= query - self.sliding_window
        if self.chunk is not None:
            hidden |= key // self.chunk != query // self.chunk
        if self.unselected is not None:
            hidden = hidden | self._unselected_from(rows, keys)
        return hidden

    def _unselected_from(self, rows: Tensor, keys: slice) -> Tensor:
        """As :meth:`hidden_from`, the keys that a row has not selected among all of its prompt."""
        assert self.unselected is not None
        there = self.unselected.to(rows.device)
        if self.positions is None:
            if there.shape[3] != self.keys:
                raise InputError(OF_WHOLE_PROMPTS)
            there = there[..., keys]
        else:
            at, tokens = self.positions.key.to(rows.device), there.shape[3]
            # Of a part of the prompt, a row may have selected nothing.
            if self.keys < tokens or bool(((at >= tokens) & (at < PADDING)).any()):
                raise InputError(OF_WHOLE_PROMPTS)
            at = at[:, :, keys].clamp(max=tokens - 1)
            size, heads = max(len(there), len(at)), max(there.shape[1], at.shape[1])
            at = at[:, :, None].expand(size, heads, there.shape[2], -1)
            there = there.expand(size, heads, -1, -1).gather(3, at)
        at = rows[:, None, :, None].expand(-1, there.shape[1], -1, there.shape[3])
        size = max(len(there), len(at))
        at = at.expand(size, -1, -1, -1)
        return there.expand(size, -1, -1, -1).gather(2, at)


class Intervention(Protocol):
    """A change to the attention of every layer while it is active."""

    def attend(self, call: AttentionCall, attention: "Attention") -> Tensor:
        """One layer's output, [B, H, T, D]; ``attention`` computes it without this intervention."""


Attention = Callable[[AttentionCall], Tensor]

# Not a context variable: on a GPU, backward passes run in their own thread.
_in_force: list[Intervention] = []


@contextlib.contextmanager
def intervene(*interventions: Intervention) -> Iterator[None]:
    """Activate interventions for every model that uses our attention function.

    The first is the outermost: later ones see its changes to a call.
    """
    outer = _in_force.copy()
    _in_force.extend(interventions)
    try:
        yield
    finally:
        _in_force[:] = outer


class _Again:
    """A reentrant context in which only the given interventions are active."""

    def __init__(self, interventions: Sequence[Intervention]) -> None:
        self._interventions = interventions
        self._outer: list[list[Intervention]] = []

    def __enter__(self) -> None:
        self._outer.append(_in_force.copy())
        _in_force[:] = self._interventions

    def __exit__(self, *_: object) -> None:
        _in_force[:] = self._outer.pop()


def check_layers(found: Collection[int], layers: int, what: str, verb: str) -> None:
    """Raise InputError unless an intervention was called in each of so many layers."""
    if sorted(found) != list(range(layers)):
        raise InputError(
            f"the {what} of {layers - len(found)} of {layers} layers {verb} missing: this model "
            "does not pass its attention through the attention interface; choose a supported "
            "architecture."
        )


def recomputed_alike() -> tuple[contextlib.nullcontext[None], _Again]:
    """Contexts of a forward pass and of its recomputation, with the same interventions in both.

    Recomputation happens in the backward pass, outside the block of :func:`intervene`.
    """
    return contextlib.nullcontext(), _Again(_in_force.copy())


def without_interventions() -> _Again:
    """A context in which no intervention is active."""
    return _Again([])


def in_force() -> list[Intervention]:
    """The active interventions, the outermost first."""
    return _in_force.copy()


def attend_under(call: AttentionCall, interventions: Sequence[Intervention]) -> Tensor:
    """A layer's output, [B, H, T, D], under these interventions alone."""
    if not interventions:
        return plain_attention(call)
    first, *rest = interventions
    return first.attend(call, lambda inner: attend_under(inner, rest))


def attention_rows(call: AttentionCall, rows: Tensor, cut: Tensor | None = None) -> Tensor:
    """Attention probabilities of some query rows of each example.

    A_l(row, :) for ``rows`` [B, R] as [B, H, R, K], float32; 0 for keys that a row may not attend
    to. ``cut``, [1 or B, R, K], is true at further such keys.
    """
    rows = rows.to(call.query.device)
    chosen = rows[:, None, :, None].expand(-1, call.query.shape[1], -1, call.query.shape[3])
    query = call.query.gather(2, chosen).unflatten(1, (call.key.shape[1], -1)).flatten(2, 3)
    scores = _scores(call, query, slice(0, call.keys)).unflatten(2, (-1, rows.shape[1]))
    hidden = call.hidden_from(rows, slice(0, call.keys))[:, :, None]
    if cut is not None:
        hidden = hidden | cut[:, None, None]
    return _softmax(call, scores, hidden, slice(0, call.keys)).flatten(1, 2)


def _softmax(
    call: AttentionCall, scores: Tensor, hidden: Tensor, keys: slice, temperature: float = 1.0
) -> Tensor:
    """Probabilities from the scores of some keys, which are changed: [B, G, H/G, rows, keys]."""
    if call.position_bias is not None:
        scores += _position_bias(call, call.position_bias, keys)
    scores.masked_fill_(hidden, -torch.inf)
    if temperature != 1:
        scores /= temperature
    if call.sinks is None:
        return scores.softmax(-1)
    sinks = call.sinks.to(scores).view(1, scores.shape[1], -1, 1, 1) / temperature
    with_sink = torch.cat([scores, sinks.expand(*scores.shape[:-1], 1)], -1)
    return with_sink.softmax(-1)[..., :-1]


def _position_bias(call: AttentionCall, table: Tensor, keys: slice) -> Tensor:
    """What is added to the scores of some keys, [1 or B, G, H/G, 1, keys], float32."""
    groups = call.key.shape[1]
    table = table.to(call.query.device, torch.float32).unflatten(0, (groups, -1))[None]
    if call.positions is None:
        return table[..., None, keys]
    at = call.positions.key.to(table.device)[:, :, None, keys].clamp(max=table.shape[3] - 1)
    at = at.expand(-1, groups, table.shape[2], -1)  # padding is hidden anyway
    return table.expand(len(at), -1, -1, -1).gather(3, at)[..., None, :]


def _split(call: AttentionCall, keys: slice) -> tuple[slice, slice]:
    """Split a slice of keys into slices of the prefix's and of the call's keys."""
    first = call.prefix_tokens
    unshared = slice(max(0, keys.start - first), max(0, keys.stop - first))
    return slice(min(keys.start, first), min(keys.stop, first)), unshared


def _shared_product(tensor: Tensor, matrix: Tensor) -> Tensor:
    """[B, G, R, a] times [1, G, a, b], without a copy of the matrix per example: [B, G, R, b]."""
    size, _, rows, _ = tensor.shape
    product = tensor.transpose(0, 1).flatten(1, 2) @ matrix[0]  # [G, B · R, b]
    unfolded: Tensor = product.unflatten(1, (size, rows)).transpose(0, 1)
    return unfolded


def _scores(call: AttentionCall, query: Tensor, keys: slice) -> Tensor:
    """Unmasked scores, float32, of ``query`` [B, G, R, D] with some keys: [B, G, R, keys]."""
    shared, unshared = _split(call, keys)
    query = _exact(query) * call.scaling
    scores = (query @ _exact(call.key[:, :, unshared]).transpose(-1, -2)).float()
    if call.prefix is not None and shared.stop > shared.start:
        before = _exact(call.prefix.key[:, :, shared]).transpose(-1, -2)
        scores = torch.cat([_shared_product(query, before).float(), scores], -1)
    return scores if call.softcap is None else call.softcap * torch.tanh(scores / call.softcap)


def _exact(factor: Tensor) -> Tensor:
    """A factor of attention scores, in float32 except on a GPU.

    A CPU rounds a product to its factors' dtype: in bfloat16, a score of 100 would be off by up to
    0.25. There, float32 costs little compared with the layers' other products. On a GPU, float32 is
    many times slower.
    """
    return factor if factor.device.type == "cuda" else factor.float()


def _mixed(call: AttentionCall, weights: Tensor, keys: slice) -> Tensor:
    """Values of some keys, weighted by ``weights`` [B, G, R, keys]: [B, G, R, D]."""
    shared, unshared = _split(call, keys)
    weights = weights.to(call.value.dtype)
    before = shared.stop - shared.start
    mixed = weights[..., before:] @ call.value[:, :, unshared]
    if call.prefix is not None and before:
        mixed += _shared_product(weights[..., :before], call.prefix.value[:, :, shared])
    return mixed


def mixed_rows(call: AttentionCall, weights: Tensor) -> Tensor:
    """Values of all keys, weighted for some query rows of each example.

    Given weights [B, H, R, K], as of :func:`attention_rows`, the result is [B, H, R, D] in the
    values' dtype.
    """
    rows = weights.shape[2]
    mixed = _mixed(call, _grouped(call, weights, 0, rows), slice(0, call.keys))
    by_head: Tensor = mixed.unflatten(2, (-1, rows)).flatten(1, 2)
    return by_head


def row_chunks(call: AttentionCall, elements: int | None = None) -> Iterator[tuple[int, int]]:
    """Split the query rows so that a [B, H, rows, keys] tensor has about ``elements`` elements.

    Chunks keep the attention's memory linear in the number of tokens, and skip keys that causality
    hides. By default, a chunk fits into a CPU's cache, and on a GPU it has
    :func:`gpu_chunk_elements`.
    """
    batch, heads, rows, _ = call.query.shape
    if elements is None:
        on_gpu = call.query.device.type == "cuda"
        shape = (batch, heads, rows, call.keys)
        elements = _gpu_elements(call.query.device, shape) if on_gpu else _IN_CACHE
    # At least 16 rows, since products of few rows with a matrix are slow.
    step = max(16, elements // (batch * heads * call.keys))
    for start in range(0, rows, step):
        yield start, min(rows, start + step)


def gpu_chunk_elements(free: int) -> int:
    """Elements of a chunk's scores on a GPU with ``free`` bytes of memory.

    A chunk and its temporaries take at most an eighth of that memory. The size has an upper bound,
    beyond which larger chunks only compute more scores that causality hides. Below the bound it is
    a power of two, so that slightly more or less free memory does not change the rounding.
    """
    fitting = max(1, free // (8 * _CHUNK_BYTES))
    return min(_ON_GPU, 1 << (fitting.bit_length() - 1))


def gpu_chunk_bytes(free: int) -> int:
    """The most that a chunk and its temporaries take on a GPU with ``free`` bytes of memory."""
    return gpu_chunk_elements(free) * _CHUNK_BYTES


@lru_cache(maxsize=256)
def _gpu_elements(device: torch.device, _: tuple[int, ...]) -> int:
    """Elements for a GPU's free memory, queried once per shape, since the driver is slow."""
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return gpu_chunk_elements(torch.cuda.mem_get_info(device)[0] + unused)


def chunk_probabilities(
    call: AttentionCall, start: int, stop: int, temperature: float = 1.0
) -> Tensor:
    """Attention probabilities of the query rows ``start:stop`` over :meth:`keys_of` these rows.

    The result is [B, G, H/G · rows, keys], float32, grouped by the key head that query heads share.
    Scores, those of sinks included, are divided by the ``temperature``.
    """
    keys = call.keys_of(start, stop)
    scores = _scores(call, _grouped(call, call.query, start, stop), keys)
    by_head = scores.unflatten(2, (-1, stop - start))  # [B, G, H/G, rows, keys]
    hidden = call.hidden(start, stop)[:, :, None]
    return _softmax(call, by_head, hidden, keys, temperature).flatten(2, 3)


def _grouped(call: AttentionCall, tensor: Tensor, start: int, stop: int) -> Tensor:
    """Rows of a [B, H, T, D] tensor as [B, G, H/G · rows, D]."""
    grouped: Tensor = tensor[:, :, start:stop].unflatten(1, (call.key.shape[1], -1)).flatten(2, 3)
    return grouped


def plain_attention(call: AttentionCall) -> Tensor:
    """Causal attention without any intervention.

    The result is [B, H, T, D] in the query's dtype.
    """
    windowed = call.sliding_window is not None and call.sliding_window < call.keys
    chunked = call.chunk is not None and call.chunk < call.keys
    straight = call.positions is None and call.offset == 0
    unscored = (call.softcap, call.sinks, call.position_bias)  # what torch can't do with scores
    fused = all(change is None for change in unscored)
    if fused and not windowed and not chunked and straight and call.unselected is None:
        return _fused(call, call.query, call.key, call.value, is_causal=True)
    output = call.query.new_empty(*call.query.shape[:3], call.value.shape[3])
    for start, stop in row_chunks(call):
        visible = call.keys_of(start, stop)
        if fused and call.prefix is None and call.positions is None:
            hidden = call.hidden(start, stop)
            if hidden.shape[1] > 1:  # of every key head
                hidden = hidden.repeat_interleave(call.query.shape[1] // hidden.shape[1], 1)
            output[:, :, start:stop] = _fused(
                call,
                call.query[:, :, start:stop],
                call.key[:, :, visible],
                call.value[:, :, visible],
                attn_mask=~hidden,
            )
        else:
            weights = chunk_probabilities(call, start, stop)
            mixed = _mixed(call, weights, visible).unflatten(2, (-1, stop - start))
            output[:, :, start:stop] = mixed.flatten(1, 2)
    return output


def _fused(call: AttentionCall, query: Tensor, key: Tensor, value: Tensor, **mask: Any) -> Tensor:
    heads = query.shape[1]
    if heads != key.shape[1] and not _takes_groups(query.device):
        key, value = (kv.repeat_interleave(heads // kv.shape[1], 1) for kv in (key, value))
    return scaled_dot_product_attention(
        query, key, value, scale=call.scaling, enable_gqa=heads != key.shape[1], **mask
    )


def _takes_groups(device: torch.device) -> bool:
    """Whether torch lets query heads share keys without keeping a whole matrix of scores.

    On a GPU, it does so only in half precision and without a mask. Keys are repeated there, which
    costs little memory, since they have fewer heads than queries.
    """
    return device.type != "cuda"


@dataclass(frozen=True)
class GradientRule:
    """How a backward pass differs from that of the forward pass; by default, it does not.

    The softmax's Jacobian is that at the scores divided by ``temperature``, without the factor
    1/temperature. What queries, keys, and values receive is multiplied. With ``frozen_norms``, the
    scales of norms are constants (:func:`~anchorflow.model.frozen_norms.norms_of`).
    """

    temperature: float = 1.0
    query: float = 1.0
    key: float = 1.0
    value: float = 1.0
    frozen_norms: bool = False


PLAIN = GradientRule()
RULES = {
    "plain": PLAIN,
    # Edin et al. 2025, with the numbers of their code (gim-explain 0.1.4).
    "gim": GradientRule(2.0, 0.25, 0.25, 0.5, frozen_norms=True),
}


def attention_gradients(
    call: AttentionCall, output_gradient: Tensor, start: int, stop: int, rule: GradientRule = PLAIN
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Backward pass of attention for the query rows ``start:stop``, including A ⊙ ∂L/∂A.

    With dA = dO·Vᵀ and P = B ⊙ dA, the gradients are dS = P − B·rowsum(P), dQ = dS·K·s,
    dK = dSᵀ·Q·s, dV = Aᵀ·dO, where B is A at the temperature of ``rule``, A itself by default. A
    sink has the value 0, so it changes none of this. ``output_gradient``, [B, H, T, D], is dO of
    all query rows. The results are Σ_h A_h ⊙ ∂L/∂A_h as [B, rows, keys], float32; dQ as
    [B, H, rows, D]; and dK and dV as [B, G, keys, D], the contributions of these rows alone.
    """
    keys = call.keys_of(start, stop)
    key, value = call.key[:, :, keys], call.value[:, :, keys]
    weights = chunk_probabilities(call, start, stop)  # A: [B, G, H/G · rows, keys]
    upstream = _grouped(call, output_gradient, start, stop)
    product = (_exact(upstream) @ _exact(value).transpose(-1, -2)).float()  # dA, then A ⊙ dA
    value_gradient = weights.to(value.dtype).transpose(-1, -2) @ (upstream * rule.value)
    softened = rule.temperature != 1
    flow = product * weights if softened else product.mul_(weights)
    significance = flow.unflatten(2, (-1, stop - start)).sum((1, 2))  # [B, rows, keys]
    if softened:
        del flow
        weights = chunk_probabilities(call, start, stop, rule.temperature)
        product *= weights
    score_gradient = product.addcmul_(weights, product.sum(-1, keepdim=True), value=-1)
    query = _grouped(call, call.query, start, stop)
    if call.softcap is not None:
        scores = _scores(call, query, keys)
        score_gradient *= 1 - (scores / call.softcap).square()
    score_gradient = score_gradient.to(key.dtype)
    query_gradient = (score_gradient @ key).unflatten(2, (-1, stop - start)).flatten(1, 2)
    key_gradient = score_gradient.transpose(-1, -2) @ (query * (call.scaling * rule.key))
    query_gradient = query_gradient * (call.scaling * rule.query)
    return significance, query_gradient, key_gradient, value_gradient


def _call(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    **options: Any,
) -> AttentionCall:
    """A layer's call of its attention function; raises InputError for features that ours lacks."""
    causal = is_causal if is_causal is not None else getattr(module, "is_causal", True)
    for wrong, what in (
        (not causal, "is not causal"),
        (dropout > 0, "applies dropout; put it into evaluation mode"),
        (options.get(BIAS) is not None, "adds a position bias inside its attention"),
    ):
        if wrong:
            raise _unsupported(module, what)
    return AttentionCall(
        layer=getattr(module, _NUMBER, module.layer_idx),  # type: ignore[arg-type]
        query=query,
        key=key,
        value=value,
        scaling=query.shape[-1] ** -0.5 if scaling is None else scaling,
        sliding_window=sliding_window,
        softcap=softcap,
        chunk=_chunk_of(module),
        sinks=s_aux,
        position_bias=options.get("alibi"),
        unselected=_unselected(module, key.shape[2], **options),
    )


BIAS = "position_bias"  # an argument of some attention functions that ours does not follow


def _chunk_of(module: Any) -> int | None:
    """The length of a layer's chunks, which only its configuration names."""
    config: Any = getattr(module, "config", None)
    kinds = getattr(config, "layer_types", None) or ()
    if "chunked_attention" not in kinds or kinds[module.layer_idx] != "chunked_attention":
        return None
    chunk: int = config.attention_chunk_size
    return chunk


def _unselected(
    module: Any,
    keys: int,
    indices: Tensor | None = None,
    block_indices: Tensor | None = None,
    **_: Any,
) -> Tensor | None:
    """True at the keys that a layer's indexer does not select for a query, [B, 1 or G, T, K].

    Given are the selected keys, [B, T, k], or blocks of keys, [B, G, T, k], of which -1 is none.
    """
    if indices is not None:
        chosen, size = indices[:, None].long(), 1
    elif block_indices is not None:
        chosen, size = block_indices, module.indexer.block_size
    else:
        return None
    blocks = -(-keys // size)
    left_out = chosen.new_ones((*chosen.shape[:3], blocks + 1), dtype=torch.bool)
    left_out.scatter_(3, chosen.where(chosen >= 0, blocks), False)
    return left_out[..., :blocks].repeat_interleave(size, 3)[..., :keys]


def _unsupported(module: nn.Module, what: str) -> InputError:
    return InputError(f"{type(module).__name__}: this attention {what}, which is not supported.")


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, None]:
    """The attention function as transformers calls it; output [B, T, H, D]."""
    if attention_mask is not None:
        raise _unsupported(module, "comes with its own attention mask")
    output = attend_under(_call(module, query, key, value, **options), _in_force)
    return output.transpose(1, 2).contiguous(), None


def _attend_selected(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Our attention function for a model whose layers select keys, from transformers' mask.

    They put their selection into the mask, or pass it on.
    """
    call = _left_out_by(attention_mask, _call(module, query, key, value, **options))
    return attend_under(call, _in_force).transpose(1, 2).contiguous(), None


def _left_out_by(mask: Tensor | None, call: AttentionCall) -> AttentionCall:
    """A call without the keys that are hidden by a mask of floats, [1 or B, 1 or H, T, K]."""
    if mask is None:
        return call
    left_out = mask[:, :: max(1, mask.shape[1] // call.key.shape[1])] < 0
    if call.unselected is not None:
        left_out = left_out | call.unselected
    return replace(call, unselected=left_out)


def _no_mask(*_: Any, **__: Any) -> None:
    """Keep transformers from making a mask, since our attention function makes its own."""


AttentionInterface.register(IMPLEMENTATION, _attend)
AttentionMaskInterface.register(IMPLEMENTATION, _no_mask)
AttentionInterface.register(SELECTING, _attend_selected)
AttentionMaskInterface.register(SELECTING, AttentionMaskInterface()["eager"])


def uses_interface(module: nn.Module) -> bool:
    """Whether a module attends through transformers' attention interface.

    transformers' own flag, ``is_backend_compatible``, is not set by every class that does.
    """
    return "ALL_ATTENTION_FUNCTIONS" in names_in(module)


def names_in(module: nn.Module) -> tuple[str, ...]:
    """The names of functions and attributes in a module's ``forward``."""
    code = _code_of(module)
    return () if code is None else code.co_names


def arguments_of(module: nn.Module) -> set[str]:
    """The names of the arguments that a module passes by name, as to its attention function."""
    constants = () if (code := _code_of(module)) is None else code.co_consts
    return {name for names in constants if isinstance(names, tuple) for name in names}


def _code_of(module: nn.Module) -> CodeType | None:
    code: CodeType | None = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    return code


def attending(model: Any) -> list[Any]:
    """The modules of the text decoder whose attention is followed, lowest first."""
    for part in (model.get_decoder(), model):  # a "decoder" may be a projection
        known = (m for m in part.modules() if uses_interface(m) or type(m).__name__ in _ADAPTED)
        if causal := [module for module in known if getattr(module, "is_causal", True)]:
            return causal
    return []


def has_sinks(model: Any) -> bool:
    """Whether learned sinks share in the attention of some layers, whose rows then sum to less."""
    return any("s_aux" in arguments_of(module) for module in attending(model))


# Classes that don't use the interface, by their name, and the options of their calls. The first
# attend in ``_attn``, a private method of transformers. Under another name, a replaced one would
# not be called, and no intervention seen; a test asks for it by name.
_BY_METHOD: dict[str, Callable[[Any, Any], dict[str, Any]]] = {
    "GPTJAttention": lambda module, _: {"scaling": 1.0 / float(module.scale_attn)},
    "CodeGenAttention": lambda module, _: {"scaling": 1.0 / module.scale_attn},
    "GPTNeoXJapaneseAttention": lambda module, _: {"scaling": 1.0 / module.norm_factor},
    "GPTNeoSelfAttention": lambda module, config: {
        "scaling": 1.0,
        "sliding_window": config.window_size
        if config.attention_layers[module.layer_id] == "local"
        else None,
    },
}


@dataclass(frozen=True)
class _Inline:
    """A class whose ``forward`` attends by itself, so that it is replaced.

    ``split`` takes the module, the states, [B, T, hidden], and the rotary embeddings, and gives
    queries, keys and values. ``merge`` names the projection of the heads' outputs, and ``scaling``
    an attribute. ``alibi`` makes the position biases of a module at so many positions, [H, ...].
    """

    split: Callable[[Any, Tensor, Any], Sequence[Tensor]]
    merge: str
    scaling: str
    alibi: Callable[[Any, int], Tensor] | None = None


def _by_head(module: Any, states: Tensor) -> Tensor:
    by_head: Tensor = states.unflatten(-1, (-1, module.head_dim))
    return by_head.transpose(1, 2)


def _split_bloom(module: Any, states: Tensor, _: Any) -> Sequence[Tensor]:
    fused = module.query_key_value(states)
    by_head: Tensor = fused.unflatten(-1, (module.num_heads, 3, -1))
    return by_head.permute(3, 0, 2, 1, 4).unbind()


def _split_falcon(module: Any, states: Tensor, rotary: Any) -> Sequence[Tensor]:
    split = module._split_heads(module.query_key_value(states))  # private: three variants
    query, key, value = (part.transpose(1, 2) for part in split)
    return [*_file_of(module).apply_rotary_pos_emb(query, key, *rotary), value]


def _split_mpt(module: Any, states: Tensor, _: Any) -> Sequence[Tensor]:
    fused: Tensor = module.Wqkv(states)
    if module.clip_qkv:
        fused = fused.clamp(-module.clip_qkv, module.clip_qkv)
    return [_by_head(module, part) for part in fused.chunk(3, 2)]


def _split_xglm(module: Any, states: Tensor, _: Any) -> Sequence[Tensor]:
    projections = (module.q_proj, module.k_proj, module.v_proj)
    return [_by_head(module, projection(states)) for projection in projections]


def _alibi_of_bloom(module: Any, positions: int) -> Tensor:
    dtype = module.query_key_value.weight.dtype  # to which the model rounds them
    made = _file_of(module).build_alibi_tensor(torch.ones(1, positions), module.num_heads, dtype)
    table: Tensor = made[:, 0]
    return table


def _alibi_of_mpt(module: Any, positions: int) -> Tensor:
    made: Tensor = _file_of(module).build_mpt_alibi_tensor(module.n_heads, positions)
    return -made[:, 0].flip(-1)  # 0 for the first token, not the last: as exact in short prompts


_INLINE = {
    "BloomAttention": _Inline(_split_bloom, "dense", "inv_norm_factor", _alibi_of_bloom),
    "FalconAttention": _Inline(_split_falcon, "dense", "inv_norm_factor"),
    "MptAttention": _Inline(_split_mpt, "out_proj", "softmax_scale", _alibi_of_mpt),
    "XGLMAttention": _Inline(_split_xglm, "out_proj", "scaling"),
}


_ADAPTED = {*_BY_METHOD, *_INLINE}


def _file_of(module: nn.Module) -> Any:
    """The file of transformers that defines a module's class."""
    return sys.modules[type(module).__module__]


def known_positions(config: Any) -> int:
    """The number of positions that a model knows, or was trained on."""
    text = config.get_text_config()
    for name in ("max_position_embeddings", "max_seq_len", "seq_length"):
        if getattr(text, name, None):
            return int(getattr(text, name))
    return _CONTEXT_OF_BLOOM if text.model_type == "bloom" else _UNLIMITED


def _by_method(model: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The modules that attend in ``_attn``, and the options of their calls."""
    for module in model.modules():
        options_of = _BY_METHOD.get(type(module).__name__)
        if options_of is not None:
            if not hasattr(module, "layer_idx"):
                module.layer_idx = module.layer_id
            yield module, options_of(module, model.config)


def _inline(model: Any) -> Iterator[tuple[Any, _Inline, dict[str, Any]]]:
    """The modules that attend in ``forward``, how they do, and the options of their calls."""
    table = None
    for module in model.modules():
        how = _INLINE.get(type(module).__name__)
        if how is not None:
            if how.alibi is not None and table is None:  # the same in all layers
                table = how.alibi(module, known_positions(model.config))
            yield module, how, {"scaling": getattr(module, how.scaling), "alibi": table}


def _attend_by_method(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, **how: Any
) -> tuple[Tensor, None]:
    """Our attention function with the signature of a module's own ``_attn``; [B, H, T, D]."""
    # Some rotate queries and keys in float32, whatever the values' dtype.
    output, _ = _attend(module, query, key, value.to(key.dtype), None, **how)
    return output.transpose(1, 2).to(value.dtype), None


def _attend_inline(
    how: _Inline,
    options: Mapping[str, Any],
    module: Any,
    hidden_states: Tensor,
    residual: Tensor | None = None,
    layer_past: Any = None,
    past_key_values: Any = None,
    position_embeddings: Any = None,
    key_value_states: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Our attention function in place of a module's ``forward``; [B, T, hidden]."""
    if key_value_states is not None:
        raise _unsupported(module, "attends to an encoder")
    query, key, value = how.split(module, hidden_states, position_embeddings)
    cache = past_key_values if layer_past is None else layer_past
    if cache is not None:
        key, value = cache.update(key, value, module.layer_idx)
    output, _none = _attend(module, query, key, value, None, **options)
    merged: Tensor = getattr(module, how.merge)(output.flatten(2))
    return merged if residual is None else merged + residual, None


def _check_call(_: nn.Module, __: Any, given: dict[str, Any]) -> None:
    """Reject arguments that our attention function would silently ignore."""
    if getattr(given.get("past_key_values"), "is_compileable", False):
        raise InputError(
            "a static cache is not supported; leave out cache_implementation, so that the cache "
            "grows with the text."
        )
    mask = given.get("attention_mask")
    if isinstance(mask, Tensor) and not mask.all():
        raise InputError(
            "the attention mask hides tokens, which is not supported; run prompts of different "
            "lengths one at a time."
        )


def _number(model: nn.Module) -> None:
    """Number attention layers densely where only some layers attend."""
    config: Any = model.config
    places = attention_layers(config)
    if len(places) < config.get_text_config().num_hidden_layers:
        for module in model.modules():
            if getattr(module, "layer_idx", None) in places:
                setattr(module, _NUMBER, places.index(module.layer_idx))  # type: ignore[arg-type]


def adopt(model: nn.Module) -> None:
    """Install our attention function in a model that was loaded with eager attention."""
    _number(model)
    for module, options in _by_method(model):
        module._attn = MethodType(partial(_attend_by_method, **options), module)
    for module, how, options in _inline(model):
        module.forward = MethodType(partial(_attend_inline, how, options), module)
    selecting = selects_keys(model.config)
    if any(map(uses_interface, model.modules())):
        name = SELECTING if selecting else IMPLEMENTATION
        model.set_attn_implementation(name)  # type: ignore[operator]
    model.register_forward_pre_hook(_check_call, with_kwargs=True)
    if runs_again(model.config):
        from anchorflow.model.layers import attending_layers  # which import this module
        from anchorflow.model.run_again import run_what_precedes

        run_what_precedes(model.base_model, attending_layers(model))  # type: ignore[arg-type]


Observer = Callable[[AttentionCall, Tensor], None]


@contextlib.contextmanager
def eager_in_float32(model: nn.Module, observe: Observer) -> Iterator[None]:
    """Run a model's eager attention in float32 and observe it, layer by layer.

    ``model`` was opened with eager attention. ``observe`` gets every layer's call, with the model's
    queries, keys and values in float32, and the output [B, H, T, D], float32, of transformers'
    eager attention under transformers' mask.
    """
    _number(model)
    with contextlib.ExitStack() as undo:
        ALL_ATTENTION_FUNCTIONS["eager"] = partial(_eager, observe, selects_keys(model.config))
        undo.callback(ALL_ATTENTION_FUNCTIONS.pop, "eager")
        for module, options in _by_method(model):
            module._attn = partial(_eager_method, observe, module, options)
            undo.callback(delattr, module, "_attn")  # uncovers the method of its class
        for module, how, options in _inline(model):
            hook = partial(_eager_inline, observe, how, options)
            undo.enter_context(module.register_forward_pre_hook(hook, with_kwargs=True))
        yield


def _eager(
    observe: Observer,
    selecting: bool,
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, None]:
    """The eager attention of a module's architecture in float32; output [B, T, H, D]."""
    eager = getattr(_file_of(module), "eager_attention_forward", None)
    if eager is None:
        raise _unsupported(module, "has no eager form to be compared with")
    exact = query.float(), key.float(), value.float()
    mask = None if attention_mask is None else attention_mask.float()
    output: Tensor = eager(module, *exact, mask, **options)[0]
    call = _call(module, *exact, **options)
    observe(_left_out_by(mask, call) if selecting else call, output.transpose(1, 2))
    return output.to(query.dtype), None


def _eager_method(
    observe: Observer,
    module: Any,
    options: dict[str, Any],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *mask: Any,
) -> tuple[Tensor, None]:
    """The same for a module that attends in ``_attn``; output [B, H, T, D]."""
    exact = query.float(), key.float(), value.float()
    output = type(module)._attn(module, *exact, *mask)[0]
    observe(_call(module, *exact, **options), output)
    return output.to(value.dtype), None


def _eager_inline(
    observe: Observer, how: _Inline, options: Mapping[str, Any], module: Any, *given: Any
) -> None:
    """Run a module that attends in ``forward`` in float32, and merge its heads' outputs in it."""
    args, named = _in_float32(given)
    exact = copy.deepcopy(module).float()
    merged: list[Tensor] = []  # heads' outputs side by side, [B, T, H · D]
    with getattr(exact, how.merge).register_forward_pre_hook(lambda _, got: merged.append(got[0])):
        exact.forward(*args, **named)
    states = args[0] if args else named["hidden_states"]
    query, key, value = how.split(exact, states, named.get("position_embeddings"))
    output = merged[0].unflatten(-1, (query.shape[1], -1)).transpose(1, 2)
    observe(_call(exact, query, key, value, **options), output)

    def merge_exact(_: nn.Module, rounded: tuple[Tensor]) -> Tensor:
        once.remove()
        return merged[0].to(rounded[0].dtype)

    once = getattr(module, how.merge).register_forward_pre_hook(merge_exact)


def _in_float32(value: Any) -> Any:
    if isinstance(value, Tensor) and value.is_floating_point():
        return value.float()
    if isinstance(value, dict):
        return {name: _in_float32(part) for name, part in value.items()}
    return tuple(map(_in_float32, value)) if isinstance(value, tuple) else value
