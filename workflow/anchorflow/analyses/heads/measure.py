"""Scores of every attention head, from what it looks at and from what it writes.

A head's output at the target is split over the tokens that it attends to, and every part is
followed directly to the logits (``model/target_attention.py``). Later layers are not run on it, so
these are direct effects; ``function_vector`` is the whole effect of a replaced output.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor
from tqdm import tqdm
from transformers import PreTrainedModel

from anchorflow.analyses.heads import HEADS
from anchorflow.analyses.heads.function_vectors import function_vectors
from anchorflow.arrays import Array
from anchorflow.config.cell_names import task_of
from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import Attention, AttentionCall, attention_rows, intervene
from anchorflow.model.batches import Batch, Budget, among, run_batches, runnable
from anchorflow.model.cell import Cell
from anchorflow.model.layers import run_layers
from anchorflow.model.logits import target_label_logits
from anchorflow.model.prefix import compute_prefix, shared_token_ids
from anchorflow.model.size import Cost, Prompts
from anchorflow.model.target_attention import HeadWrites, RecordWrites, Scales, find_writes
from anchorflow.model.tokenizer import open_tokenizer, ordinary_tokens, token_groups
from anchorflow.prepare.positions import (
    KINDS,
    kinds_of,
    label_word_tokens,
    matched_positions,
    text_tokens,
)
from anchorflow.random_draws import Draw, generator
from anchorflow.schemas.frames import frame_schema, keyed, places_of
from anchorflow.schemas.prompts import PROMPTS

SCORES = ("prefix_matching", "writing", "task", "gathering", "function_vector")
_HEADS = 16  # of a layer, for the estimate of time, which knows the number of layers alone
REPEATED = 50  # different random tokens in a sequence, which then follow once more
_PARTS = ("text", "template", "instruction", "first", "query")

Scored = dict[str, tuple[Array, Array | None]]  # value and control, [B, L, H], by score


def cost(prompts: Prompts, spec: Mapping[str, Any], depth: int) -> Cost:
    """Every text once, random sequences, and one token per head for function vectors."""
    further = spec["sequences"] * 4 * REPEATED if "prefix_matching" in spec["scores"] else 0
    vectors = "function_vector" in spec["scores"]
    return Cost(
        prompts.once * (2 if vectors else 1) + further,
        steps=depth * _HEADS if vectors else 0,  # twice, from half of the layers on
        copies=2 if vectors else 1,
    )


@dataclass(frozen=True)
class Classes:
    """Labels whose words begin differently, and their groups of tokens in a prompt.

    Groups are label words by class, then matched tokens of the texts by class, then ``_PARTS``.
    """

    tokens: list[int]  # [C], the first token of each class's label words
    number: list[int]  # class of each label

    @classmethod
    def of(cls, label_tokens: Sequence[int]) -> "Classes":
        """From the first tokens of all labels."""
        groups = token_groups(label_tokens)
        firsts = sorted(set(groups))
        if len(firsts) < 2:
            raise InputError(
                "all label words begin with the same token, so no head can tell them apart by it; "
                "leave out the analysis heads."
            )
        return cls([label_tokens[first] for first in firsts], [firsts.index(g) for g in groups])

    def members(self, prompt: Mapping[str, Any], matched: Sequence[int] | None) -> Tensor:
        """Groups of a prompt's tokens, [tokens, S]; the matched ones belong to two groups."""
        classes = len(self.tokens)
        whole = torch.zeros(prompt["tokens"], 2 * classes + len(_PARTS))
        spans = zip(
            prompt["demonstration_labels"],
            prompt["demonstration_starts"],
            prompt["demonstration_ends"],
            label_word_tokens(prompt),
            strict=True,
        )
        for label, start, end, word in spans:
            whole[word, self.number[label]] = 1
            drawn = [token for token in matched or () if start <= token < end]
            whole[drawn, classes + self.number[label]] = 1
        if matched is None:  # there are too few tokens in the texts, so there is no control
            whole[:, classes : 2 * classes] = torch.nan
        for token, kind in enumerate(kinds_of(prompt)):
            name = KINDS[kind] if kind >= 0 else "query"  # the target ends the query
            if name != "label":
                whole[token, 2 * classes + _PARTS.index(name)] = 1
        return whole


def measure_heads(
    model: PreTrainedModel,
    tokenizer: Tokenizer,
    prompts: pl.DataFrame,
    scores: Collection[str],
    sequences: int,
    batch_tokens: int,
    examples: Collection[int] | None = None,
) -> pl.DataFrame:
    """Scores of every head, for prompts with fixed demonstrations.

    ``sequences`` is the number of sequences of random tokens for ``prefix_matching``.

    Source: prefix matching, Olsson et al. 2022; task recognition and learning, Yang et al. 2025;
    function vectors, Todd et al. 2024; gathering, Cho et al. 2025.
    """
    chosen = runnable(prompts, "fixed")
    measured = among(chosen, examples)
    empty = pl.DataFrame(schema=frame_schema(HEADS))
    if measured.is_empty():
        return empty
    keys = measured.select("model", "task", "seed").row(0, named=True)
    random = _named(keys)
    found = [empty]

    def add(names: Sequence[int], scored: Scored) -> None:
        found.extend(_frame(name, names, *both, keys) for name, both in scored.items())

    def numbered(number: int) -> range:
        """Examples that are no test texts; those of different seeds differ."""
        first = keys["seed"] % 2**20 * number  # seeds may be as large as the column's integers
        return range(first, first + number)

    if "prefix_matching" in scores:
        bos = chosen["token_ids"][0][0]
        ids = random_sequences(model, tokenizer, bos, sequences, random)
        add(numbered(sequences), _looks_back(model, *ids, batch_tokens))
    if "function_vector" in scores:
        add(*function_vectors(model, chosen, measured, batch_tokens, random))
    if not {"writing", "task", "gathering"} & set(scores):
        return pl.concat(found).sort("score", "example", "layer", "head")
    first = chosen.row(0, named=True)
    token_ids = shared_token_ids(chosen)
    if "gathering" in scores:
        add(numbered(len(first["label_positions"])), _gathers(model, first, token_ids))
    classes = Classes.of(first["label_tokens"])
    writing = find_writes(model)
    drawn = _vocabulary(model, classes, random)
    with tqdm(total=len(measured), desc="heads", unit="example", mininterval=1) as progress:
        prefix = compute_prefix(model, token_ids)
        rows_of = {row["example"]: row for row in chosen.iter_rows(named=True)}

        def measure(batch: Batch) -> Scored:
            members = _members(batch, rows_of, classes, random)
            with intervene(prefix):
                recorded, scales = record_writes(model, writing, classes, batch, members)
            label = torch.tensor([classes.number[y] for y in batch.labels.tolist()])
            scored = _written(recorded, scales, label) if "writing" in scores else {}
            if "task" in scores:
                scored |= _of_task(model, writing, recorded, scales, label, classes, drawn)
            if "gathering" in scores:
                scored |= _to_right(recorded, label, members)
            return scored

        for batch, scored in run_batches(
            measured, Budget(batch_tokens), model.device, measure, prefix.tokens
        ):
            add(batch.examples, scored)
            progress.update(batch.size)
    return pl.concat(found).sort("score", "example", "layer", "head")


def _named(keys: Mapping[str, Any]) -> Draw:
    """Generators for a purpose, of one task and seed, alike for a model and its twins."""
    return lambda *purpose: generator(keys["seed"], task_of(keys["task"]), "heads", *purpose)


def _frame(
    score: str,
    names: Sequence[int],
    value: Array,
    control: Array | None,
    keys: Mapping[str, str | int],
) -> pl.DataFrame:
    """The rows of one score, from [examples, L, H]."""
    frame = pl.DataFrame(
        {
            **places_of(value.shape, example=names, layer=None, head=None),
            "score": [score] * value.size,
            "value": value.ravel().astype(float),
            "control": [None] * value.size if control is None else control.ravel().astype(float),
        },
        schema_overrides={"control": pl.Float64},
    )
    return keyed(frame.with_columns(pl.col("value", "control").fill_nan(None)), keys, HEADS)


def _stacked(by_layer: Mapping[int, Tensor]) -> Tensor:
    """[B, L, ...] of [B, ...] by layer."""
    return torch.stack([by_layer[layer] for layer in range(len(by_layer))], 1)


def _members(
    batch: Batch, rows_of: Mapping[int, Mapping[str, Any]], classes: Classes, random: Draw
) -> Tensor:
    """Groups of the tokens of a batch's prompts, [B, K, S]."""
    found = []
    for example in batch.examples:
        prompt = rows_of[example]
        matched = matched_positions(prompt, "text", random("matched"))
        found.append(classes.members(prompt, matched))
    keys = batch.prefix_tokens + batch.input_ids.shape[1]
    whole = torch.zeros(len(found), keys, found[0].shape[1], device=batch.input_ids.device)
    for row, members in enumerate(found):
        whole[row, : len(members)] = members
    return whole


def record_writes(
    model: PreTrainedModel, writing: HeadWrites, classes: Classes, batch: Batch, members: Tensor
) -> tuple[RecordWrites, Scales]:
    """Run a batch once, and record what heads write at the target from groups of tokens.

    ``members``, [B, K, S], says which keys belong to which of S groups, as for
    :class:`RecordWrites`.
    """
    unembedding = model.get_output_embeddings().weight[classes.tokens]
    directions = [writing.directions(layer, unembedding) for layer in range(len(writing.weights))]
    recorded = RecordWrites(directions, batch.target_rows, members)
    with intervene(recorded), writing.observed_scales(batch.target_rows) as scales:
        target_label_logits(model, batch)
    return recorded, scales


def effects_over_others(recorded: RecordWrites, scales: Scales) -> Tensor:
    """Direct effects φ on each class's logit minus the mean of the others', [B, L, H, S, C]."""
    effects = torch.stack(
        [
            effect * scales.before_logits(layer)[:, None, None, None]
            for layer, effect in sorted(recorded.effects.items())
        ],
        1,
    )
    classes = effects.shape[-1]
    return (effects * classes - effects.sum(-1, keepdim=True)) / (classes - 1)


def _written(recorded: RecordWrites, scales: Scales, label: Tensor) -> Scored:
    """Direct effects on the true label's logit, minus the mean of the other labels'."""
    over_others = effects_over_others(recorded, scales)
    classes = over_others.shape[-1]
    at_class = over_others.diagonal(dim1=-2, dim2=-1)  # tokens of a class on its own label
    matched = over_others[..., classes : 2 * classes, :].diagonal(dim1=-2, dim2=-1)
    index = label[:, None, None, None, None].expand(*over_others.shape[:-1], 1)
    of_label = over_others.gather(-1, index)[..., 0].numpy()  # [B, L, H, S]
    right = np.eye(classes)[label.numpy()][:, None, None]  # [B, 1, 1, C]
    labels, controls = of_label[..., :classes], of_label[..., classes : 2 * classes]
    parts = dict(zip(_PARTS, np.moveaxis(of_label[..., 2 * classes :], -1, 0), strict=True))
    return {
        "direct": (labels.sum(-1) + sum(parts.values()), None),
        "writes_right": ((labels * right).sum(-1), (controls * right).sum(-1)),
        "writes_wrong": ((labels * (1 - right)).sum(-1), (controls * (1 - right)).sum(-1)),
        "label_copy": (at_class.sum(-1).numpy(), matched.sum(-1).numpy()),
        **{f"writes_{name}": (part, None) for name, part in parts.items()},
    }


def _vocabulary(model: PreTrainedModel, classes: Classes, random: Draw) -> list[int]:
    """As many random tokens as there are classes, none of which begins a label word."""
    size = model.get_output_embeddings().weight.shape[0]
    others = np.setdiff1d(np.arange(size), classes.tokens)
    drawn: list[int] = random("vocabulary").permutation(others)[: len(classes.tokens)].tolist()
    return drawn


def _of_task(
    model: PreTrainedModel,
    writing: HeadWrites,
    recorded: RecordWrites,
    scales: Scales,
    label: Tensor,
    classes: Classes,
    drawn: Sequence[int],
) -> Scored:
    """Task recognition and task learning, with random tokens' unembeddings as the control.

    What is written passes the final norm first, whose gains weigh its dimensions as unembeddings
    read them. The mean over the vocabulary is subtracted from unembeddings: the same vector added
    to all of them changes no probability. Unembeddings share much of it, rare tokens' most.
    """
    unembedding = model.get_output_embeddings().weight
    mean, norm = unembedding.mean(0, dtype=torch.float32), writing.final[1]
    sides = []
    for tokens in (classes.tokens, drawn):
        vectors = unembedding[list(tokens)].float() - mean  # [C, hidden]
        basis = torch.linalg.qr(vectors.T)[0]  # [hidden, C]
        of_layers = []
        for layer, outputs in sorted(recorded.outputs.items()):
            written = writing.written(layer, outputs.to(writing.weights[layer].device))
            written = written * scales.before_residual(layer).to(written.device)[:, None, None]
            written = norm.applied(written.to(norm.gain.device))  # [B, H, hidden]
            device = written.device
            length = written.norm(dim=-1)
            recognized = (written @ basis.to(device)).norm(dim=-1)
            products = written @ vectors.to(device).T  # [B, H, C]
            index = label.to(device)[:, None, None].expand(-1, products.shape[1], 1)
            true = products.gather(-1, index)[..., 0]
            towards = true - (products.sum(-1) - true) / (products.shape[-1] - 1)
            of_layers.append(
                torch.stack(
                    [recognized, towards / recognized, recognized / length, towards / length]
                ).cpu()
            )
        sides.append(torch.stack(of_layers, 2).numpy())  # [4, B, L, H]
    names = ("task_recognition", "task_learning", "task_recognition_share", "task_learning_share")
    return {name: (value, control) for name, value, control in zip(names, *sides, strict=True)}


def _to_right(recorded: RecordWrites, label: Tensor, members: Tensor) -> Scored:
    """Share of the true class in attention to label words, and in their number."""
    attention = _stacked(recorded.attention)  # [B, L, H, S]
    classes = (attention.shape[-1] - len(_PARTS)) // 2
    right = torch.eye(classes)[label]
    to_labels = attention[..., :classes]
    # Attention that underflows to 0 for all label words has no shares.
    share = (to_labels * right[:, None, None]).sum(-1) / to_labels.sum(-1)
    number = members[..., :classes].sum(1).cpu()
    even = (number * right).sum(-1) / number.sum(-1)
    return {"to_right": (share.numpy(), even[:, None, None].expand_as(share).numpy())}


class _RecordAttention:
    """The intervention that records attention from some rows to a weighting of the keys."""

    def __init__(self, rows: Tensor, weightings: Tensor) -> None:
        self._rows, self._weightings = rows, weightings  # [B, R]; [B, R, K, W]
        self.found: dict[int, Tensor] = {}  # [B, H, R, W]
        self.even: dict[int, Tensor] = {}  # the same for attention spread evenly

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        """Record Σ_k α[row, k] w[k]; the layer's output is unchanged."""
        weights = attention_rows(call, self._rows)
        weightings = self._weightings.to(weights.device)
        self.found[call.layer] = torch.einsum("bhrk,brkw->bhrw", weights, weightings).cpu()
        rows = self._rows.to(weights.device)
        seen = ~call.hidden_from(rows, slice(0, call.keys))
        seen = seen.repeat_interleave(weights.shape[1] // seen.shape[1], 1).expand_as(weights)
        even = seen / seen.sum(-1, keepdim=True)
        self.even[call.layer] = torch.einsum("bhrk,brkw->bhrw", even, weightings).cpu()
        return attention(call)


def _gathers(model: PreTrainedModel, prompt: Mapping[str, Any], token_ids: Sequence[int]) -> Scored:
    """Attention to a demonstration's text from its label word, and from the token before it."""
    starts, ends = prompt["label_positions"], prompt["label_ends"]
    rows = [row for first, end in zip(starts, ends, strict=True) for row in (end - 1, first - 1)]
    texts = [text for text in text_tokens(prompt) for _ in range(2)]
    to_texts = torch.zeros(1, len(rows), len(token_ids), 1)
    for row, text in enumerate(texts):
        to_texts[0, row, text] = 1
    recorded = _RecordAttention(torch.tensor([rows]), to_texts)
    compute_prefix(model, token_ids, observing=[recorded])
    value, control = (
        _stacked(of)[0, ..., 0].permute(2, 0, 1).numpy() for of in (recorded.found, recorded.even)
    )  # [R, L, H]
    return {"gathers": (value[0::2], control[0::2]), "before": (value[1::2], control[1::2])}


def random_sequences(
    model: PreTrainedModel, tokenizer: Tokenizer, first: int, number: int, random: Draw
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Random tokens twice in the same order, and twice with the second half permuted.

    Each of the two has [number, 1 + 2n] token ids: BOS, n different tokens that are not special,
    and the same again. ``first`` stands for BOS if the model's configuration names none.
    """
    config = model.config.get_text_config()
    size = min(tokenizer.get_vocab_size(), model.get_input_embeddings().weight.shape[0])
    usable = np.array(ordinary_tokens(tokenizer, size))
    context = getattr(config, "max_position_embeddings", None) or 1 + 2 * REPEATED
    count = min(REPEATED, (context - 1) // 2, len(usable))
    if count < 2:
        raise InputError(
            "heads.scores: the model's context has no room for repeated tokens; leave out "
            "prefix_matching."
        )
    known = config.bos_token_id
    bos = known if isinstance(known, int) and known < size else first
    draws = random("sequences")
    intact, permuted = [], []
    for _ in range(number):
        drawn = draws.permutation(usable)[:count]
        intact.append([bos, *drawn, *drawn])
        permuted.append([bos, *drawn, *draws.permutation(drawn)])
    return np.array(intact), np.array(permuted)


def _looks_back(
    model: PreTrainedModel,
    intact: NDArray[np.int64],
    permuted: NDArray[np.int64],
    batch_tokens: int,
) -> Scored:
    """Attention from repeated tokens to earlier ones, with the second half permuted as control."""
    tokens = intact.shape[1]
    count = (tokens - 1) // 2
    rows = torch.arange(count + 1, tokens)
    weightings = torch.zeros(len(rows), tokens, 3)
    for row, place in enumerate(range(1, count + 1)):
        if row < count - 1:  # the last token's successor is in the second half
            weightings[row, place + 1, 0] = 1 / (count - 1)
        weightings[row, place, 1] = 1 / count
        weightings[row, place + count - 1, 2] = 1 / count
    at_once = max(1, batch_tokens // tokens)
    sides = []
    for ids in (intact, permuted):
        parts = []
        for some in torch.from_numpy(ids).split(at_once):
            recorded = _RecordAttention(
                rows.expand(len(some), -1), weightings.expand(len(some), -1, -1, -1)
            )
            with intervene(recorded):
                run_layers(model, some.to(model.device))
            parts.append(_stacked(recorded.found).sum(3))  # [B, L, H, 3]
        sides.append(torch.cat(parts).numpy())
    value, control = sides
    return {
        "prefix_matching": (value[..., 0], control[..., 0]),
        "duplicate": (value[..., 1], control[..., 1]),
        "previous": (value[..., 2], None),
    }


def measure(cell: Cell) -> None:
    spec, prompts = cell.spec, cell.read("prompts", PROMPTS)
    examples = cell.examples(prompts)
    heads = measure_heads(
        cell.model(among(runnable(prompts, "fixed"), examples), cost, spec),
        open_tokenizer(cell.input.tokenizer),
        prompts,
        spec["scores"],
        spec["sequences"],
        cell.batch_tokens,
        examples,
    )
    cell.write(HEADS, heads, cell.described(heads=spec))
