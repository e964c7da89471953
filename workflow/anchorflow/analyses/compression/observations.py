"""What methods of compression look at: a run of the demonstrations, and what more some declare."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

import torch
from tokenizers import Tokenizer
from torch import Tensor
from transformers import PreTrainedModel

from anchorflow.analyses.compression.methods import FOLDER, SINKS, Demonstrations, Queries
from anchorflow.config.errors import InputError
from anchorflow.config.registry import declared
from anchorflow.model.attention_function import (
    Attention,
    AttentionCall,
    Intervention,
    attending,
    attention_rows,
    intervene,
    known_positions,
    names_in,
)
from anchorflow.model.layers import run_layers
from anchorflow.model.prefix import Prefix, compute_prefix
from anchorflow.model.target_attention import output_projections

OBSERVED = 32  # last tokens of the prefix whose attention methods can use; SnapKV's largest window
_CHUNK = 2048  # tokens repeated at once, as in KVzip
_ROWS = 256  # rows of attention in memory at once
_BEFORE = 8  # tokens that say where a later chunk begins
_FUTURE = 512  # positions over which Expected Attention averages
_CLOSE = 1e-2  # relative difference of queries that a rotation has to explain


class Asking(NamedTuple):
    """The words that ask a model to repeat what it has read, as tokens (KVzip, Kim et al. 2025)."""

    whole: Sequence[int] = ()
    part: Sequence[int] = ()  # followed by the tokens before the part
    end: Sequence[int] = ()

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "Asking":
        words = (
            "\n\nRepeat the previous context exactly.",
            "\n\nRepeat the part of the previous context exactly, starting with",
            "\n",
        )
        return cls(*(tokenizer.encode(text, add_special_tokens=False).ids for text in words))


def declares(name: str, constant: str) -> bool:
    """Whether a method's file sets this constant."""
    return bool(declared(FOLDER, name, constant, False))


def observe(
    model: PreTrainedModel,
    token_ids: Sequence[int],
    prompt: Mapping[str, Any],
    methods: Collection[str] = (),
    asking: Asking | None = None,
) -> Demonstrations:
    """Run the demonstrations once, and record the keys, values, and attention that methods use.

    ``token_ids`` are the P tokens that all prompts share, and ``prompt`` is any of these prompts.
    What only some ``methods`` declare to read takes a run more.
    """
    observed = _Observe(OBSERVED)
    prefix = compute_prefix(model, token_ids, observing=[observed])
    shown = Demonstrations(prompt, prefix, observed.rows)
    more: dict[str, Any] = {}
    if any(declares(method, "REPEATS") for method in methods):
        more["repeated"] = repeated_attention(model, prefix, token_ids, asking or Asking())
    if any(declares(method, "WRITES") for method in methods):
        more["written"] = written_norms(model, prefix)
    if any(declares(method, "QUERIES") for method in methods):
        more["queries"] = future_queries(model, token_ids)
    return Demonstrations(**{**vars(shown), **more})


class _Observe:
    """The intervention that records attention of the last W tokens to the whole prefix."""

    def __init__(self, tokens: int) -> None:
        self._tokens = tokens
        self.rows: dict[int, Tensor] = {}

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        tokens = call.query.shape[2]
        rows = torch.arange(max(0, tokens - self._tokens), tokens, device=call.query.device)
        self.rows[call.layer] = attention_rows(call, rows[None])[0]  # [H, W, P]
        return attention(call)


def repeated_attention(
    model: PreTrainedModel,
    prefix: Prefix,
    token_ids: Sequence[int],
    asking: Asking,
    chunk: int = _CHUNK,
) -> dict[int, Tensor]:
    """The most attention that each key gets while the model repeats the prefix, in chunks.

    The softmax is over the first four keys, those of the chunk, and those of what repeats it. The
    result is [G, P] by layer, in float32: the largest over query heads that share a key head and
    over all rows, those that ask included.

    Source: Kim et al. 2025 (KVzip), §3.
    """
    tokens, device = len(token_ids), model.device
    words = max(len(asking.whole), len(asking.part) + _BEFORE) + len(asking.end)
    chunk = min(chunk, known_positions(model.config) - tokens - words, tokens)
    if chunk < 1:
        raise InputError(
            f"demonstrations of {tokens} tokens leave no positions to repeat them in; leave kvzip "
            "and kvzip_uniform out, or take fewer demonstrations."
        )
    found: dict[int, list[Tensor]] = {number: [] for number in prefix.layers}
    for start in range(0, tokens, chunk):
        stop = min(tokens, start + chunk)
        asked = [*asking.part, *token_ids[max(0, start - _BEFORE) : start]]
        ids = [*(asked if start else asking.whole), *asking.end, *token_ids[start:stop]]
        repeating = _Repeat(tokens, start, stop)
        with intervene(prefix, repeating):
            run_layers(model, torch.tensor([ids], device=device), tokens)
        for number, most in repeating.most.items():
            found[number].append(most)
    return {number: torch.cat(parts, 1) for number, parts in found.items()}


class _Repeat:
    """The intervention that records the most attention to the keys of a chunk, [G, chunk]."""

    def __init__(self, tokens: int, start: int, stop: int) -> None:
        self._chunk = slice(start, stop)
        self._cut = torch.ones(tokens, dtype=torch.bool)
        self._cut[:SINKS] = self._cut[self._chunk] = False
        self.most: dict[int, Tensor] = {}

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        rows = call.query.shape[2]
        own = self._cut.new_zeros(call.key.shape[2])
        cut = torch.cat([self._cut, own])[None, None].to(call.query.device)
        most = []
        for first in range(0, rows, _ROWS):
            at = torch.arange(first, min(rows, first + _ROWS), device=call.query.device)[None]
            weights = attention_rows(call, at, cut.expand(-1, at.shape[1], -1))[0]
            most.append(weights[..., self._chunk].amax(1))  # [H, chunk]
        largest = torch.stack(most).amax(0).unflatten(0, (call.key.shape[1], -1))
        self.most[call.layer] = largest.amax(1)
        return attention(call)


def written_norms(model: PreTrainedModel, prefix: Prefix) -> dict[int, Tensor]:
    """|W_O v| of every value behind the projection of each query head, [H, P] by layer."""
    norms = {}
    for (number, layer), weight in zip(
        prefix.layers.items(), output_projections(model), strict=True
    ):
        value = layer.value[0].float()
        shared = weight.to(value.device).unflatten(0, (len(value), -1))  # [G, H/G, D, hidden]
        squares = shared @ shared.transpose(-1, -2)  # vᵀ W_O W_Oᵀ v, without [H, P, hidden]
        by_group = torch.einsum("gpd,grde,gpe->grp", value, squares, value)
        norms[number] = by_group.clamp(min=0).sqrt().flatten(0, 1)
    return norms


class _Keep:
    """The intervention that keeps queries and outputs of the demonstrations."""

    def __init__(self) -> None:
        self.queries: dict[int, tuple[Tensor, float]] = {}  # [H, P, D], and their scaling
        self.outputs: dict[int, Tensor] = {}

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        self.queries[call.layer] = call.query[0].float(), call.scaling
        self.outputs[call.layer] = attention(call)
        return self.outputs[call.layer]


class _Replay:
    """The intervention that gives every layer kept outputs, and keeps its queries.

    Hidden states are then those of the kept run, whatever the positions.
    """

    def __init__(self, outputs: Mapping[int, Tensor]) -> None:
        self._outputs = outputs
        self.queries: dict[int, Tensor] = {}

    def attend(self, call: AttentionCall, _: Attention) -> Tensor:
        self.queries[call.layer] = call.query[0].float()
        return self._outputs[call.layer]


_Rotation = tuple[Tensor, Tensor]  # cosines and sines of some positions, [positions, d]


def future_queries(model: PreTrainedModel, token_ids: Sequence[int]) -> dict[int, Queries]:
    """The normal distribution of queries at the next positions, by layer.

    Mean and covariance are those of the demonstrations' queries before their rotation, without the
    first four; the rotation is then the average of those at the next 512 positions. To see queries
    without their rotation, the demonstrations run again at position 0, with the attention of the
    first run. That the rotation explains the difference is checked.

    Source: Devoto et al. 2025 (Expected Attention), eq. 6-10.
    """
    tokens = len(token_ids)
    ids, kept = torch.tensor([token_ids], device=model.device), _Keep()
    places = torch.arange(tokens, device=model.device)[None]
    own = _rotations(model, ids, places, [kept])
    if not any(own.values()) and not any("rotary" in name for name in _names(model)):
        return {
            number: _normal(query, scaling, None)
            for number, (query, scaling) in kept.queries.items()
        }
    still = _Replay(kept.outputs)
    none = _rotations(model, ids, torch.zeros_like(places), [still])
    more = max(1, min(_FUTURE, known_positions(model.config) - tokens))
    later = torch.arange(tokens, tokens + more, device=model.device)[None]
    future = _rotations(model, ids[:, :1].expand(-1, more), later, [])
    found = {}
    for number, (query, scaling) in kept.queries.items():
        before, rotation = still.queries[number], None
        if not _close(before, query):
            scale = none[number] and none[number][0]  # 1, except where angles are stretched
            if scale is None or not _close(_rotated(before, own[number], scale), query):
                raise InputError(
                    f"{type(model).__name__}: how layer {number} turns queries with their position "
                    "is not known; leave expected_attention out."
                )
            rotation = tuple((part / scale[:1]).mean(0, keepdim=True) for part in future[number])
        found[number] = _normal(before, scaling, rotation)
    return found


def _names(model: PreTrainedModel) -> set[str]:
    """The names in the forwards of the modules that attend."""
    return {name for module in attending(model) for name in names_in(module)}


def _normal(query: Tensor, scaling: float, rotation: _Rotation | None) -> Queries:
    """Mean and covariance of queries [H, P, D], rotated alike."""
    mean = query[:, SINKS:].mean(1, keepdim=True)
    apart = query[:, SINKS:] - mean
    covariance = apart.transpose(-1, -2) @ apart / max(1, apart.shape[1])
    if rotation is not None:
        mean = _rotated(mean, rotation)
        covariance = _rotated(_rotated(covariance, rotation).transpose(-1, -2), rotation)
    return Queries(mean[:, 0] * scaling, covariance * scaling**2)


def _rotations(
    model: PreTrainedModel,
    input_ids: Tensor,
    position_ids: Tensor,
    interventions: Sequence[Intervention],
) -> dict[int, Any]:
    """Cosines and sines that each layer gets while tokens run at these positions; None without."""
    found: dict[int, Any] = {}

    def note(number: int, _: Any, __: Any, given: Mapping[str, Any]) -> None:
        turned: Any = given.get("position_embeddings")
        pair = isinstance(turned, tuple) and len(turned) == 2 and turned[0].ndim == 3
        found[number] = tuple(part[0].float() for part in turned) if pair else None

    with ExitStack() as hooks, intervene(*interventions), torch.no_grad():
        for number, module in enumerate(attending(model)):
            hook = module.register_forward_pre_hook(partial(note, number), with_kwargs=True)
            hooks.enter_context(hook)
        model.base_model(input_ids, position_ids=position_ids, use_cache=False)
    return found


def _rotated(vectors: Tensor, rotation: _Rotation, scale: Tensor | None = None) -> Tensor:
    """Vectors [..., D], of which the first d dimensions are turned, in pairs.

    A pair has a dimension of each half, or two neighbors, as angles tell. Cosines and sines may
    have been multiplied by a ``scale``.
    """
    cosine, sine = rotation if scale is None else (part / scale for part in rotation)
    if cosine.shape[-1] * 2 <= vectors.shape[-1] and _alike(cosine) == "":
        cosine, sine = (torch.cat([part, part], -1) for part in (cosine, sine))
    size = cosine.shape[-1]
    turned, rest = vectors[..., :size], vectors[..., size:]
    if _alike(cosine) == "neighbors":
        aside = torch.stack([-turned[..., 1::2], turned[..., ::2]], -1).flatten(-2)
    else:
        aside = torch.cat([-turned[..., size // 2 :], turned[..., : size // 2]], -1)
    return torch.cat([turned * cosine + aside * sine, rest], -1)


def _alike(cosine: Tensor) -> str:
    """Which dimensions have the same angles: those of both halves, or neighbors."""
    half = cosine.shape[-1] // 2
    if torch.equal(cosine[..., :half], cosine[..., half:]):
        return "halves"
    return "neighbors" if torch.equal(cosine[..., ::2], cosine[..., 1::2]) else ""


def _close(found: Tensor, wanted: Tensor) -> bool:
    return bool((found - wanted).norm() <= _CLOSE * wanted.norm())
