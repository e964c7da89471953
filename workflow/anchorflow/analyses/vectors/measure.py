"""Answers of prompts without demonstrations into which one vector of those with them is put.

Vectors are means over prompts with other texts, so texts are split in halves: the vector, its
heads, and its layer are from one half, and the other half is scored, in both directions. Within
the half that chooses, a text is never in its own vector. Classes count alike in every mean:
otherwise, a class that is rare in one half is common in the other, and vectors would be wrong more
often than by chance.

Nothing attends to the target, so that a run with a vector takes one token per text, in the layers
above it.
"""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import product
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor
from tqdm import tqdm
from transformers import PreTrainedModel

from anchorflow.analyses.heads.function_vectors import effects_of_means, run_with_heads
from anchorflow.analyses.vectors import ALL, NO_LAYER, SIMILARITY, VECTORS
from anchorflow.analyses.vectors.local import LocalVectors, deranged_words, random_like, with_words
from anchorflow.config.cell_names import task_of
from anchorflow.model.attention_function import intervene
from anchorflow.model.batches import Batch, Budget, among, run_batches, runnable
from anchorflow.model.cell import Cell
from anchorflow.model.last_tokens import LastTokens, keep_together
from anchorflow.model.layer_kinds import attention_layers
from anchorflow.model.layers import Resumed, resume
from anchorflow.model.logits import label_predictions, target_label_logits
from anchorflow.model.prefix import Prefix, compute_prefix, shared_token_ids
from anchorflow.model.run_again import hidden_states
from anchorflow.model.size import Cost, Prompts
from anchorflow.model.target_attention import HeadWrites, Scales, find_writes, means_over_classes
from anchorflow.model.tokenizer import open_tokenizer, ordinary_tokens
from anchorflow.prepare.label_words import taken_together
from anchorflow.prepare.positions import positions_without_demonstrations
from anchorflow.prepare.prompts import PromptBuilder
from anchorflow.random_draws import Draw, generator
from anchorflow.schemas.frames import frame_schema, keyed
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.schemas.samples import SAMPLES

log = logging.getLogger(__name__)

SOURCES = ("own", "deranged", "other_task", "without", "random")
_HEADS = 16  # of a layer, for the estimate of time, which knows the number of layers alone
_ORDER = VECTORS.keys[3:]
_BEST = {"vector": pl.String, "source": pl.String, "example": pl.Int32, "best": pl.Int32}


class Setting(NamedTuple):
    """What is put where; ``number`` of demonstrations are in the prompt."""

    vector: str
    source: str
    number: int
    layer: int


def in_prompt(number: int) -> Setting:
    """The setting of a prompt as it is, with so many demonstrations."""
    return Setting("none", "none", number, NO_LAYER)


def layers_at(depths: int, depth: int) -> list[int]:
    """So many of the layers that attend, evenly spaced, if there are as many."""
    return sorted({-(-depth * step // (depths + 1)) - 1 for step in range(1, depths + 1)})


def cost(prompts: Prompts, spec: Mapping[str, Any], depth: int) -> Cost:
    """All prompts by their kind; for every layer, a token per text or, for local ones, all."""
    layers, kinds = layers_at(spec["depths"], depth), set(spec["kinds"])
    above = sum(1 - (layer + 1) / depth for layer in layers)
    of_target = len(kinds - {"local"})
    demonstrations = 3 + len(spec["demonstrations"]) / 2
    asked = (
        4
        + len(spec["demonstrations"])
        + 2 * len(SOURCES) * of_target * above / max(prompts.query, 1)
    )
    if "local" in kinds:
        demonstrations += 4 + 2 * above
        asked += 1 + 2 * above
    steps = depth * _HEADS / 2 if "function" in kinds else 0
    forward = demonstrations * prompts.demonstrations + asked * prompts.asked
    return Cost(forward, steps=steps, copies=8 if "local" in kinds else 5)


class _Run:
    """Prompts of one source, run once: their last tokens, outputs of heads and layers, answers."""

    def __init__(
        self,
        model: PreTrainedModel,
        prompts: pl.DataFrame,
        prefix: Prefix,
        budget: Budget,
        writing: HeadWrites | None,
    ) -> None:
        self.tokens: LastTokens = keep_together(model, prompts, prefix, budget)
        self.scales: Scales | None = None
        with ExitStack() as observed:
            if writing is not None:
                self.scales = observed.enter_context(writing.observed_scales(self.tokens.rows))
            self.heads, self.logits, self.kept = run_with_heads(
                model, self.tokens, LastTokens.logits
            )

    def at_target(self, layer: int) -> Tensor:
        """The residual stream at the targets behind a layer, [B, ..., hidden], float32."""
        return at_targets(self.tokens, self.kept[layer]).float()

    def written(self, writing: HeadWrites, heads: Sequence[tuple[int, int]]) -> Tensor:
        """What some heads write into the residual stream at the targets, summed, [B, hidden]."""
        assert self.scales is not None
        total: Tensor | float = 0.0
        for layer in sorted({layer for layer, _ in heads}):
            some = [head for at, head in heads if at == layer]
            vectors = writing.written(layer, self.heads[layer])[:, some].sum(1)
            scale = self.scales.before_residual(layer).to(vectors.device)
            total = total + vectors * scale[:, None]
        assert isinstance(total, Tensor)
        return total


def _rows_of_targets(tokens: LastTokens) -> Tensor:
    """The row of each target in layers' outputs, [B]."""
    return tokens.rows if tokens.preceding is None else tokens.preceding.lengths


def at_targets(tokens: LastTokens, output: Resumed) -> Tensor:
    """A layer's output at the targets, [B, ..., hidden]."""
    hidden = hidden_states(output.output)[0]
    by_example = hidden.movedim((output.batch, output.batch + 1), (0, 1))  # [B, T, ..., hidden]
    rows = _rows_of_targets(tokens).to(hidden.device)
    return by_example[torch.arange(len(rows), device=hidden.device), rows]


def with_targets(tokens: LastTokens, output: Resumed, states: Tensor) -> Resumed:
    """The output with other states, [B, ..., hidden], at the targets."""
    hidden, rest = hidden_states(output.output)
    axes = (output.batch, output.batch + 1)
    by_example = hidden.movedim(axes, (0, 1)).clone()
    rows = _rows_of_targets(tokens).to(hidden.device)
    by_example[torch.arange(len(rows), device=hidden.device), rows] = states.to(hidden)
    changed = by_example.movedim((0, 1), axes)
    return replace(output, output=changed if rest is None else (changed, *rest))


def split_in_halves(classes: Sequence[int], random: np.random.Generator) -> NDArray[np.int64]:
    """The half of each text, 0 or 1; of each class, either has the same number, or one more."""
    order = random.permutation(len(classes))
    by_class = order[np.argsort(np.array(classes)[order], kind="stable")]
    half: NDArray[np.int64] = np.zeros(len(classes), np.int64)
    half[by_class] = np.arange(len(classes)) % 2
    return half


def weights_over(allowed: Tensor, classes: Tensor) -> Tensor:
    """Weights of a mean over some texts in which classes that occur count alike.

    ``allowed``, [B, M], says which of M texts, of these ``classes``, [M], are in the mean for each
    of B texts. A row without any is NaN.
    """
    by_class = allowed.float() @ torch.nn.functional.one_hot(classes).float()  # [B, C]
    of_own = by_class.index_select(1, classes).clamp(min=1)
    return allowed / of_own / (by_class > 0).sum(1, keepdim=True)


class _Target:
    """Vectors that are put at the target: for texts that are scored, and to choose a layer.

    ``sources`` are runs by name, of which ``other_task`` alone has other texts. With ``writing``,
    there are function vectors of so many ``heads``.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        sources: Mapping[str, _Run],
        half_of: NDArray[np.int64],
        writing: HeadWrites | None,
        heads: int,
        random: Draw,
        budget: Budget,
    ) -> None:
        self._model, self._sources, self._random = model, sources, random
        self._recipient, self._budget = sources["without"], budget
        self._classes = self._recipient.tokens.labels.cpu()
        self._half = torch.from_numpy(half_of)
        # By source, with the heads that either half has chosen, [2, M, hidden].
        self._written: dict[str, Tensor] = {}
        if writing is not None and (chosen := self._best_heads(heads)):
            self._written = {
                source: torch.stack([run.written(writing, of_half) for of_half in chosen])
                for source, run in sources.items()
            }

    @property
    def vectors(self) -> list[str]:
        """The kinds of vectors that there are."""
        return ["task", *(["function"] if self._written else [])]

    def _best_heads(self, number: int) -> list[list[tuple[int, int]]]:
        """Layer and head of the greatest mean effects on the texts of each half; none if undefined.

        Means are over intact prompts of the same half, and effects are in prompts with deranged
        label words, on the log-odds of the true label, whether or not it is predicted.
        """
        own, deranged = self._sources["own"], self._sources.get("deranged")
        halves = [torch.nonzero(self._half == half)[:, 0] for half in (0, 1)]
        if deranged is None or min(map(len, halves)) < 2:
            log.warning(
                "No function vectors: either half of the texts needs two of them, and label words "
                "of two labels with the same number of tokens (vectors.kinds)."
            )
            return []
        means = {layer: torch.empty_like(of) for layer, of in own.heads.items()}
        for rows in halves:
            for layer, of in own.heads.items():
                means[layer][rows] = means_over_classes(of[rows], self._classes[rows])
        effects = effects_of_means(
            self._model, deranged.tokens, means, deranged.kept, self._classes, deranged.logits
        )[0].cpu()  # [B, L, H]
        chosen = []
        for rows in halves:
            mean = effects[rows].mean(0)
            order = mean.flatten().argsort(descending=True, stable=True)[:number].tolist()
            chosen.append([divmod(place, mean.shape[1]) for place in order])
        return chosen

    def logits(self, vector: str, layer: int) -> Iterator[tuple[str, Tensor, Tensor]]:
        """By source: logits of label words, [B, C], that are scored, and that choose a layer."""
        tokens, kept = self._recipient.tokens, self._recipient.kept[layer]
        recipient = self._recipient.at_target(layer)
        put = [self.put(vector, layer, scored) for scored in (True, False)]
        # A text that is alone in its half chooses no layer: its own state is put, and not scored.
        alone = (self._half[:, None] == self._half).sum(1) == 1
        for source, states in put[1].items():
            put[1][source] = torch.where(_beside(alone, states), recipient, states)
        every = torch.cat([of for some in put for of in some.values()])
        if vector == "function":
            every = every + recipient.repeat(len(every) // tokens.size, 1)
        rows = torch.arange(tokens.size, device=tokens.labels.device)
        rows = rows.repeat(len(every) // tokens.size)
        step = max(1, self._budget.tokens // (tokens.token_ids.shape[1] + 1))
        parts = []
        for some, states in zip(rows.split(step), every.split(step), strict=True):
            chosen = tokens.select(some)
            changed = with_targets(chosen, kept.select(some), states)
            with resume(self._model, changed), intervene(chosen):
                parts.append(chosen.logits(self._model))
        scored, choosing = torch.cat(parts).chunk(2)
        size = tokens.size
        choosing[alone.repeat(len(put[0])).to(choosing.device)] = torch.nan
        yield from zip(put[0], scored.split(size), choosing.split(size), strict=True)

    def put(self, vector: str, layer: int, scored: bool) -> dict[str, Tensor]:
        """The vectors of all sources, [B, ..., hidden], for all texts; NaN if there is no text.

        A text that is scored gets the mean over the other half; one that chooses, over its own half
        without itself. ``random`` has the length of ``own``.
        """
        same = self._half[:, None] == self._half
        allowed = ~same if scored else same & ~torch.eye(len(same), dtype=torch.bool)
        of_half = 1 - self._half if scored else self._half
        found = {}
        for source, run in self._sources.items():
            weights = weights_over(allowed, self._classes)
            if source == "other_task":
                classes = run.tokens.labels.cpu()
                weights = weights_over(torch.ones(len(same), len(classes)) > 0, classes)
            if vector == "task":
                states = run.at_target(layer)
                found[source] = _means(weights, states)
            else:
                of_halves = [_means(weights, states) for states in self._written[source]]
                second = (of_half == 1).to(of_halves[0].device)[:, None]
                found[source] = torch.where(second, of_halves[1], of_halves[0])
        own = found["own"]
        drawn = self._random("random", vector, layer).standard_normal(own.shape[1:])
        return {**found, "random": random_like(own, drawn)}

    def centered(self, layer: int) -> Tensor:
        """The task vector of all texts minus the mean state without demonstrations."""
        own, without = (self._sources[of].at_target(layer) for of in ("own", "without"))
        weights = weights_over(torch.ones(1, len(own)) > 0, self._classes)
        return _means(weights, own - without)[0]


def _beside(rows: Tensor, states: Tensor) -> Tensor:
    """Flags of rows, [B], that broadcast over states, [B, ..., hidden]."""
    return rows.to(states.device).reshape(-1, *[1] * (states.dim() - 1))


def _means(weights: Tensor, states: Tensor) -> Tensor:
    """Means [B, ..., hidden] of states [M, ..., hidden] with weights [B, M]."""
    means: Tensor = weights.to(states) @ states.flatten(1)
    return means.reshape(-1, *states.shape[1:])


def chosen_layers(
    probabilities: Mapping[int, Sequence[float]], half_of: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The layer for each text: where the true label is most probable on the other half, on average.

    ``probabilities`` of the true label, [B], are by layer. ``NO_LAYER`` where no text can choose.
    """
    layers = sorted(probabilities)
    of_layers = np.array([probabilities[layer] for layer in layers])
    best = np.full(2, NO_LAYER)
    for half in (0, 1):
        some = of_layers[:, half_of == half]
        if some.size and not np.isnan(some).any():
            best[half] = layers[int(np.argmax(some.mean(1)))]
    chosen: NDArray[np.int64] = best[1 - half_of]
    return chosen


def probability_of(labels: Sequence[int], logits: Tensor) -> list[float]:
    """The probability of the true label among label words, [B], of logits [B, C]."""
    true = torch.tensor(labels, device=logits.device)[:, None]
    found: list[float] = logits.softmax(-1).gather(1, true)[:, 0].tolist()
    return found


class _Rows:
    """Rows of ``VECTORS``, with layers chosen when all answers are known."""

    def __init__(self, keys: Mapping[str, Any], half_of: Mapping[int, int]) -> None:
        self._keys, self._half_of = keys, half_of
        self._parts = [pl.DataFrame(schema=frame_schema(VECTORS)).drop("chosen")]
        self._best: list[dict[str, Any]] = []
        # By vector and source, and then by layer, the true label's probability by example.
        self.choosing: dict[tuple[str, str], dict[int, dict[int, float]]] = {}

    def add(
        self,
        batch: Batch | LastTokens,
        logits: Tensor,
        setting: Setting,
        choosing: Tensor | None = None,
    ) -> None:
        """Add logits of label words, [B, C], and those by which a layer is chosen, if any."""
        of_prompts: Any = batch  # last tokens have what predictions need of a batch
        constants = {name: pl.lit(value) for name, value in setting._asdict().items()}
        rows = label_predictions(of_prompts, logits).with_columns(chosen=None, **constants)
        self._parts.append(keyed(rows, self._keys, VECTORS).drop("chosen"))
        if choosing is not None:
            of_setting = self.choosing.setdefault(setting[:2], {}).setdefault(setting.layer, {})
            probabilities = probability_of(batch.labels.tolist(), choosing)
            of_setting.update(zip(batch.examples, probabilities, strict=True))

    def table(self) -> pl.DataFrame:
        """All rows, in order."""
        best = [pl.DataFrame(schema=_BEST)]
        examples, half_of = list(self._half_of), np.array(list(self._half_of.values()))
        for (vector, source), by_layer in self.choosing.items():
            layers = chosen_layers(
                {at: [of[example] for example in examples] for at, of in by_layer.items()}, half_of
            )
            columns = {"vector": vector, "source": source, "example": examples, "best": layers}
            best.append(pl.DataFrame(columns, schema=_BEST))
        keys = ["vector", "source", "example"]
        rows = pl.concat(self._parts).join(pl.concat(best), on=keys, how="left")
        has_layer = pl.col("layer") != NO_LAYER
        chosen = (has_layer & (pl.col("layer") == pl.col("best"))).fill_null(False)
        return rows.with_columns(chosen=chosen).select(VECTORS.names).sort(_ORDER)


@torch.no_grad()
def measure_vectors(
    model: PreTrainedModel,
    prompts: pl.DataFrame,
    spec: Mapping[str, Any],
    vocabulary: Sequence[int],
    batch_tokens: int,
    examples: Collection[int] | None = None,
    fewer: Mapping[int, pl.DataFrame] = MappingProxyType({}),
    other: pl.DataFrame | None = None,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """``VECTORS`` and ``SIMILARITY`` of prompts with fixed demonstrations.

    ``fewer`` has the same prompts with fewer demonstrations, by their number, and ``other`` those
    of another task. Random texts are of the tokens of a ``vocabulary``.

    Source: Hendel et al. 2023, §3; Todd et al. 2024, §2; Zheng et al. 2024.
    """
    prompts = taken_together(prompts)
    chosen = runnable(prompts, "fixed")
    measured = among(chosen, examples)
    nothing = pl.DataFrame(schema=frame_schema(SIMILARITY))
    if measured.is_empty():
        return pl.DataFrame(schema=frame_schema(VECTORS)), nothing
    keys = measured.select("model", "task", "seed").row(0, named=True)
    # The half that gives a text's vector needs a text of its class, as vectors else point away.
    several = measured.filter(pl.len().over("label") > 1)
    if several.height < measured.height:
        log.warning(
            "Left out: %d of %d texts of task %s, as no other text has their label, so that a "
            "vector from other texts would lack it; raise test_examples.",
            measured.height - several.height,
            measured.height,
            task_of(keys["task"]),
        )
    if not several.is_empty():
        measured = several
    random = partial(generator, keys["seed"], task_of(keys["task"]), "vectors")
    kinds, budget = spec["kinds"], Budget(batch_tokens)
    layers = layers_at(spec["depths"], len(attention_layers(model.config)))
    writing = find_writes(model) if "function" in kinds else None
    sources = _sources(model, chosen, measured, other, writing, random, budget)
    texts, labels = measured["example"].to_list(), measured["label"].to_list()
    half_of = dict(zip(texts, split_in_halves(labels, random("halves")).tolist(), strict=True))
    rows = _Rows(keys, half_of)
    for source, number in (("without", 0), ("own", ALL)):
        rows.add(sources[source].tokens, sources[source].logits, in_prompt(number))
    for number, shorter in fewer.items():
        for batch, logits in _plain(model, among(taken_together(shorter), texts), budget):
            rows.add(batch, logits, in_prompt(number))
    order = sources["without"].tokens.examples
    halves = np.array([half_of[example] for example in order])
    target = _Target(model, sources, halves, writing, spec["heads"], random, budget)
    wanted = [vector for vector in target.vectors if vector in kinds and len(several)]
    for vector, layer in tqdm([*product(wanted, layers)], desc="vectors", mininterval=1):
        for source, scored, choosing in target.logits(vector, layer):
            setting = Setting(vector, source, 0, layer)
            rows.add(sources["without"].tokens, scored, setting, choosing)
    if "local" not in kinds:
        return rows.table(), nothing
    first, token_ids = chosen.row(0, named=True), shared_token_ids(chosen)
    local = LocalVectors(model, first, token_ids, layers, vocabulary, random)
    for batch, source, layer, logits in local.logits(measured, budget):
        setting = Setting("local", source, ALL, layer)
        rows.add(batch, logits, setting, None if layer == NO_LAYER else logits)
    similarity = local.similarity({layer: target.centered(layer) for layer in layers})
    # The summary tells those of different seeds apart.
    numbered = similarity.with_columns(example=pl.col("demonstration"))
    return rows.table(), keyed(numbered, keys, SIMILARITY).sort(SIMILARITY.keys[3:])


def _sources(
    model: PreTrainedModel,
    chosen: pl.DataFrame,
    measured: pl.DataFrame,
    other: pl.DataFrame | None,
    writing: HeadWrites | None,
    random: Draw,
    budget: Budget,
) -> dict[str, _Run]:
    """Runs of the prompts from which vectors are, by source; first those without demonstrations."""
    first, token_ids = chosen.row(0, named=True), shared_token_ids(chosen)
    intact = compute_prefix(model, token_ids)
    seen = torch.tensor(positions_without_demonstrations(first))[None]
    prefixes = {"without": intact.keep(dict.fromkeys(intact.layers, seen)), "own": intact}
    deranged = deranged_words(first, random("deranged"))
    if deranged:
        prefixes["deranged"] = compute_prefix(model, with_words(first, token_ids, deranged))
    found = {
        source: _Run(model, measured, prefix, budget, writing)
        for source, prefix in prefixes.items()
    }
    if other is not None:
        of_other = runnable(taken_together(other), "fixed")
        if not of_other.is_empty():
            prefix = compute_prefix(model, shared_token_ids(of_other))
            found["other_task"] = _Run(model, of_other, prefix, budget, writing)
    return found


def _plain(
    model: PreTrainedModel, prompts: pl.DataFrame, budget: Budget
) -> Iterator[tuple[Batch, Tensor]]:
    """Logits of label words, [B, C], after prompts as they are, by batch."""
    prompts = runnable(prompts, "fixed")
    if prompts.is_empty():
        return
    prefix = compute_prefix(model, shared_token_ids(prompts))

    def measure(batch: Batch) -> Tensor:
        with intervene(prefix):
            return target_label_logits(model, batch)

    yield from run_batches(prompts, budget, model.device, measure, prefix.tokens)


def with_last_demonstrations(samples: pl.DataFrame, number: int) -> pl.DataFrame:
    """The samples with fixed demonstrations, of which the last ones alone are left."""
    lists = [name for name in samples.columns if name.startswith("demonstration_")]
    return samples.filter(demonstrations="fixed").with_columns(pl.col(*lists).list.tail(number))


def measure(cell: Cell) -> None:
    prompts, samples = cell.read("prompts", PROMPTS), cell.read("samples", SAMPLES)
    other = cell.read("other_prompts", PROMPTS) if cell.input.other_prompts else None
    examples, spec = cell.examples(prompts), cell.spec
    whole_words = cell.scoring["scoring"] == "whole_word"
    builder = PromptBuilder.open(
        cell.input.tokenizer, cell.task, cell.card["name"], cell.name, whole_words
    )
    every = int(samples["demonstration_labels"].list.len().max())  # type: ignore[arg-type]
    fewer = {
        number: builder.build(with_last_demonstrations(samples, number))
        for number in spec["demonstrations"]
        if number < every
    }
    measured = among(runnable(prompts, "fixed"), examples)
    model = cell.model(measured, cost, spec)
    tokenizer = open_tokenizer(cell.input.tokenizer)
    size = min(tokenizer.get_vocab_size(), model.get_input_embeddings().weight.shape[0])
    found = measure_vectors(
        model,
        prompts,
        spec,
        ordinary_tokens(tokenizer, size),
        cell.batch_tokens,
        examples,
        fewer,
        other,
    )
    settings = cell.described(vectors=spec)
    for table, rows, name in zip(
        (VECTORS, SIMILARITY), found, ("answers", "similarity"), strict=True
    ):
        cell.write(table, rows, settings, name)
