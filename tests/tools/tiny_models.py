"""Tiny random models of every supported family, and a plain reference for their attention."""

from dataclasses import replace
from typing import Any

import polars as pl
import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from anchorflow.kept_positions import METHODS
from anchorflow.model.attention_function import PADDING, Attention, AttentionCall, adopt
from anchorflow.model.batches import Batch, batches_of
from anchorflow.model.layer_kinds import attention_layers
from tiny_families import VOCABULARY, tiny_family

PREFIX = 30  # tokens that the prompts of shared_prompts have in common
# Sizes of a model that takes terabytes, whatever the machine.
GIANT = {"hidden_size": 2**17, "intermediate_size": 2**19, "num_hidden_layers": 4}

# What a batch has of each of its examples, besides their tokens.
OF_EXAMPLES = (
    *("examples", "lengths", "labels", "target_positions", "label_positions", "label_ends"),
    *("demonstration_starts", "demonstration_ends", "demonstration_labels"),
)

_THREE = {"num_hidden_layers": 3}
# Settings in which a family's tiny model differs from that of ``tiny_families.py``.
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("gpt2", _THREE),
    "gpt2-inverse-scaled": ("gpt2", {**_THREE, "scale_attn_by_inverse_layer_idx": True}),
    "gptj": ("gptj", _THREE),
    "gpt-neo": ("gpt_neo", {}),
    "gpt-neox": ("gpt_neox", {**_THREE, "rotary_pct": 0.25}),
    "opt": ("opt", _THREE),
    "llama": ("llama", _THREE),
    "mistral": ("mistral", _THREE),
    "qwen2": ("qwen2", {**_THREE, "use_sliding_window": False}),
    "qwen3": ("qwen3", {**_THREE, "use_sliding_window": False, "head_dim": 16}),
    "gemma2": ("gemma2", {**_THREE, "attn_logit_softcapping": 2.0, "query_pre_attn_scalar": 8}),
    "gemma3": ("gemma3_text", {**_THREE, "query_pre_attn_scalar": 8}),
    "phi3": ("phi3", {**_THREE, "sliding_window": None}),
    "olmo2": ("olmo2", _THREE),
}

_FALCON = {**_THREE, "alibi": False}
# One model of each further kind of attention.
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "sinks": ("gpt_oss", _THREE),
    "sinks in some layers": ("mimo_v2_flash", {**_THREE, "swa_num_key_value_heads": 2}),
    "alibi": ("bloom", _THREE),
    "alibi, 6 heads": ("mpt", {**_THREE, "d_model": 48, "n_heads": 6}),
    "rotary in line": ("falcon", {**_FALCON, "multi_query": True}),
    "groups in line": ("falcon", {**_FALCON, "new_decoder_architecture": True, "num_kv_heads": 2}),
    "in line": ("xglm", _THREE),
    "by a method": ("codegen", _THREE),
    "without a flag": ("stablelm", _THREE),
    "layers that are no checkpoints": ("gpt_neox_japanese", {**_THREE, "rotary_pct": 0.25}),
    "chunks": ("llama4_text", {}),
    "latent": ("deepseek_v3", _THREE),
    "keys shared by layers": ("gemma3n_text", {}),
    "centering without weights": ("olmo", _THREE),
    "one norm at both ends": ("nanochat", _THREE),
    # With few heads, scores would often be equal (0), and the choice arbitrary.
    "selected tokens": (
        "deepseek_v32",
        {**_THREE, "index_topk": 12, "index_n_heads": 16, "index_head_dim": 16},
    ),
    "selected blocks": ("minimax_m3_vl_text", {}),
}

# Layers 1 and 3 attend; the others carry a state, each family by another mixer.
HYBRIDS: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen3-next": ("qwen3_next", {"layer_types": ["linear_attention", "full_attention"]}),
    "granite-hybrid": ("granitemoehybrid", {"num_local_experts": 0}),
    "lfm2": ("lfm2", {}),
    "jamba": ("jamba", {"num_experts": 2}),
    "recurrent-gemma": ("recurrent_gemma", {"lru_width": 32, "attention_window_size": 64}),
    "falcon-h1": ("falcon_h1", {"num_hidden_layers": 2}),  # each layer attends beside a mixer
}

# What a single head writes is not known in them: outputs are gated, or scaled.
GATED = ("qwen3-next", "falcon-h1")


def families(*without: str) -> list[Any]:
    """All families, for a test's parameters; hybrids are for the long tests."""
    hybrids = [family for family in HYBRIDS if family not in without]
    return [*FAMILIES, *(pytest.param(family, marks=pytest.mark.long) for family in hybrids)]


EVERY_FAMILY = families()


# Their queries are turned in a way of their own.
TURNED_INSIDE = ("gptj", "by a method", "latent", "chunks", "one norm at both ends")


def methods_of(family: str) -> list[str]:
    """The methods of compression that a family's model can be given."""
    return [m for m in METHODS if m != "expected_attention" or family not in TURNED_INSIDE]


def depth_of(model: PreTrainedModel) -> int:
    """The number of layers that attend."""
    return len(attention_layers(model.config))


def tiny_model(family: str, eager: bool = False, vocabulary: int = VOCABULARY) -> PreTrainedModel:
    """A random float32 model of the family; the same weights with either attention."""
    kind, settings = {**FAMILIES, **KINDS, **HYBRIDS}[family]
    model = tiny_family(kind, vocab_size=vocabulary, **settings)
    if not eager:
        adopt(model)
    return model


def random_beta(model: PreTrainedModel) -> Tensor:
    """Random weights β [L, H, N] of attention to three label words."""
    random = torch.Generator().manual_seed(1)
    shape = (depth_of(model), model.config.num_attention_heads, 3)
    return torch.randn(shape, generator=random)


def random_batch(lengths: list[int], demonstrations: int = 3, seed: int = 0) -> Batch:
    """Random prompts of the given lengths, with demonstrations of random, uneven lengths."""
    random = torch.Generator().manual_seed(seed)
    size, tokens = len(lengths), max(lengths)
    input_ids = torch.randint(1, VOCABULARY, (size, tokens), generator=random)
    starts, ends, labels = [], [], []
    for row, length in enumerate(lengths):
        input_ids[row, length:] = 0
        cuts = torch.randperm(length - 6, generator=random)[: demonstrations + 1].sort().values
        starts.append(cuts[:-1])
        ends.append(cuts[1:])
        labels.append(cuts[1:] - 1)
    return Batch(
        examples=list(range(size)),
        input_ids=input_ids,
        lengths=torch.tensor(lengths),
        target_positions=torch.tensor(lengths) - 1,
        label_positions=torch.stack(labels),
        label_ends=torch.stack(labels) + 1,
        demonstration_starts=torch.stack(starts),
        demonstration_ends=torch.stack(ends),
        demonstration_labels=torch.arange(demonstrations).expand(size, -1),
        label_tokens=torch.tensor([5, 11, 23]),
        labels=torch.arange(size) % 3,
    )


def single(batch: Batch, row: int) -> Batch:
    """One example of a batch, without its padding."""
    one = {name: getattr(batch, name)[row : row + 1] for name in OF_EXAMPLES}
    return replace(batch, **one, input_ids=batch.input_ids[row : row + 1, : batch.lengths[row]])


def plain_attentions(model: PreTrainedModel, example: Batch) -> tuple[Tensor, Tensor]:
    """Logits at the target [V] and attention [L, H, T, T] of one example, from eager attention."""
    with torch.no_grad():
        output = model(input_ids=example.input_ids, output_attentions=True, use_cache=False)
    return output.logits[0, -1], torch.stack([a[0] for a in output.attentions])


def plain_saliency(model: PreTrainedModel, example: Batch, mask: Tensor | None = None) -> Tensor:
    """I_l as [L, T, T] of one example: autograd on eager attention, exactly as in [A] eq. 1.

    A ``mask``, [1, 1, T, T], is added to all scores in place of the causal one.
    """
    embeddings = model.get_input_embeddings()(example.input_ids).detach().requires_grad_()
    output = model(
        inputs_embeds=embeddings, attention_mask=mask, output_attentions=True, use_cache=False
    )
    for attention in output.attentions:
        attention.retain_grad()
    logits = output.logits[0, -1, example.label_tokens]
    torch.nn.functional.cross_entropy(logits[None], example.labels).backward()
    return torch.stack([(a * a.grad)[0].sum(0).abs() for a in output.attentions]).detach()


def full_attention(call: AttentionCall) -> tuple[Tensor, Tensor, Tensor]:
    """Attention without a prefix written out in full: scores, hidden, and values of every head.

    Scores before the mask are [B, H, T, T], values [B, H, T, D]; ``hidden`` [T, T], or [B, H, T, T]
    where heads select keys, is true where one may not attend.
    """
    heads, tokens = call.query.shape[1:3]
    key = call.key.repeat_interleave(heads // call.key.shape[1], 1)
    value = call.value.repeat_interleave(heads // call.value.shape[1], 1)
    scores = call.query @ key.transpose(-1, -2) * call.scaling
    if call.softcap is not None:
        scores = call.softcap * torch.tanh(scores / call.softcap)
    row, column = torch.arange(tokens)[:, None], torch.arange(tokens)[None]
    hidden = column > row
    if call.sliding_window is not None:
        hidden = hidden | (column <= row - call.sliding_window)
    if call.chunk is not None:
        hidden = hidden | (column < row - row % call.chunk)
    if call.position_bias is not None:
        scores = scores + call.position_bias[:, None, :tokens]
    if call.unselected is not None:
        hidden = hidden | call.unselected.repeat_interleave(heads // call.unselected.shape[1], 1)
    return scores, hidden, value


class WholeMatrices:
    """Keeps all of I_l, [L, B, T, T]."""

    def __init__(self, layers: int, batch: Batch) -> None:
        size, tokens = batch.size, batch.prefix_tokens + batch.input_ids.shape[1]
        self.matrices = torch.zeros(layers, size, tokens, tokens)

    def take(
        self, layer: int, rows: slice, keys: slice, saliency: Tensor, examples: slice = slice(None)
    ) -> None:
        self.matrices[layer, examples, rows, keys] = saliency.abs()


class PlainCut:
    """Whole attention matrices of which some entries are cut."""

    def __init__(self, edges: Tensor, layers: range, variant: str) -> None:
        self._edges, self._layers, self._variant = edges, layers, variant

    def attend(self, call: AttentionCall, _: Attention) -> Tensor:
        scores, hidden, value = full_attention(call)
        cut = self._edges[:, None] & torch.tensor(call.layer in self._layers)
        if self._variant == "mask":
            return scores.masked_fill(hidden | cut, -torch.inf).softmax(-1) @ value
        return scores.masked_fill(hidden, -torch.inf).softmax(-1).masked_fill(cut, 0) @ value


class PlainCompression:
    """Whole attention matrices in which the queries see only the kept positions of the prefix."""

    def __init__(self, kept: dict[int, Tensor], shared: int = PREFIX) -> None:
        self._kept, self._shared = kept, shared

    def attend(self, call: AttentionCall, _: Attention) -> Tensor:
        weights, value = self.weights(call)
        return weights @ value

    def weights(self, call: AttentionCall) -> tuple[Tensor, Tensor]:
        """A [B, H, T, T] and the values of every head."""
        scores, hidden, value = full_attention(call)
        heads, groups = call.query.shape[1], call.key.shape[1]
        gone = torch.ones(heads, len(hidden), dtype=torch.bool)
        gone[:, self._shared :] = False
        kept = self._kept[call.layer].expand(groups, -1).repeat_interleave(heads // groups, 0)
        for head, positions in enumerate(kept):
            gone[head, positions[positions < PADDING]] = False
        unseen = gone[:, None, :].expand(-1, len(hidden), -1).clone()
        unseen[:, : self._shared] = False  # the demonstrations see one another as ever
        seen = scores.masked_fill(hidden | unseen, -torch.inf)
        if call.sinks is None:
            return seen.softmax(-1), value
        sinks = call.sinks[:, None, None].expand(*seen.shape[:-1], 1)
        return torch.cat([seen, sinks], -1).softmax(-1)[..., :-1], value


def shared_prompts(queries: list[int]) -> pl.DataFrame:
    """Prompts that share 30 tokens of demonstrations, with queries of these lengths."""
    random = torch.Generator().manual_seed(0)
    shared = torch.randint(1, VOCABULARY, (PREFIX,), generator=random).tolist()
    rows = []
    for example, length in enumerate(queries):
        own = torch.randint(1, VOCABULARY, (length,), generator=random).tolist()
        own[0] = 7 + example
        rows.append(
            {
                "model": "tiny",
                "task": "news",
                "seed": 0,
                "demonstrations": "fixed",
                "example": example,
                "label": example % 3,
                "tokens": PREFIX + length,
                "skipped": None,
                "context": 256,
                "token_ids": shared + own,
                "label_positions": [8, 18, 28],
                "label_ends": [9, 19, 29],
                "target_position": PREFIX + length - 1,
                "format_positions": [0, 9, 10, 19, 20, 29, PREFIX],
                "demonstration_starts": [0, 10, 20],
                "demonstration_ends": [10, 20, 30],
                "query_start": PREFIX,
                "instruction_end": None,
                "field_names": ["text"],
                "field_starts": [1, 11, 21, PREFIX + 1],
                "field_ends": [8, 18, 28, PREFIX + length],
                "merged_positions": [],
                "demonstration_labels": [0, 1, 2],
                "label_tokens": [5, 11, 23],
                "word_tokens": [[5], [11], [23]],
            }
        )
    return pl.DataFrame(rows, schema_overrides={"skipped": pl.String, "instruction_end": pl.Int32})


def whole_batch(prompts: pl.DataFrame) -> Batch:
    """All prompts in full, longest first."""
    (batch,) = batches_of(prompts, 10_000, torch.device("cpu"))
    return batch
