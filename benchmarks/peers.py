r"""The same work beside other libraries: TransformerLens, nnsight, and kvpress.

    python benchmarks/peers.py
    python benchmarks/peers.py --model results/models/gemma-3-270m
    python benchmarks/peers.py --write    # into docs/reference/performance.md, on a quiet machine

Four measurements, each on the same weights and random prompts with shared demonstrations, in this
process and in turn:

- saliency: |Σ_h A ⊙ ∂L/∂A| of all layers, every element of it;
- isolation: predictions when label words see nothing before them in the first layer, from which on
  everything runs again;
- ablation: predictions with the output of one head at the target set to 0, for each head of some
  layers;
- compression: predictions when queries see only some tokens of the demonstrations, for random sets.

Predictions are the change of label words' log-probabilities from those of intact prompts, so that
a library which changed nothing would differ by 1. The plain way is transformers' eager attention
with hooks of torch. It, TransformerLens, and nnsight run whole prompts, each as its documentation
shows. Ours runs the shared demonstrations once, as the analyses do, and kvpress once per set, and
then one query after another. Every library has its own modules around the same weights.

Seconds are the median and the least over rounds in which every way runs once; every other round has
the opposite order. Ratios are of the least, which other work on the machine disturbs less. Memory
is the peak of a further run, above what was in use before it, as Linux counts the resident set of
this process; freed memory is returned before. A difference is the largest of all elements, relative
to the largest of what is compared with. A library that is not installed is named. The layers of the
model need ``self_attn`` and its ``o_proj``, as in Llama, Gemma, and Qwen.
"""

import contextlib

with contextlib.suppress(ImportError):
    import kvpress  # first, since it wraps every attention function registered before it

import argparse
import copy
import gc
import importlib
import importlib.metadata
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers
from compression import sets_of, shared
from gpu import quietly
from models import SHAPES, random_model
from page import CPU, PAGE, machine, table, write_section
from prefix import predict, random_prompts
from saliency import peak, reset_peak
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedModel

from anchorflow.analyses.compression.observations import observe
from anchorflow.analyses.flow.measure import ALL, SharedSaliency
from anchorflow.analyses.isolation.measure import Setting, isolated_positions, measure_isolation
from anchorflow.kept_positions import METHODS
from anchorflow.model.attention_function import adopt, intervene
from anchorflow.model.batches import Budget, batches_of
from anchorflow.model.last_tokens import keep_together
from anchorflow.model.layers import keep_outputs, resume
from anchorflow.model.opening import open_model
from anchorflow.model.prefix import compute_prefix, shared_token_ids
from anchorflow.model.target_attention import RecordOutputs, ReplaceOutputs

QUERY, TIMES = 53, 5  # a prompt of 265 tokens, of which the last 53 are the query
BATCH = 4096  # tokens in one batch
MEASUREMENTS = ("saliency", "isolation", "ablation", "compression")
PEERS = ("transformer-lens", "nnsight", "kvpress")


class Work:
    """What is measured: prompts, what is hidden from which tokens, and heads to be set to 0."""

    def __init__(self, model: PreTrainedModel, texts: int, layers: int, sets: int) -> None:
        self.prompts = random_prompts(QUERY, TIMES, texts)
        (self.batch,) = batches_of(self.prompts, 10**9, CPU)
        self.ids, self.label_tokens = self.batch.input_ids, self.batch.label_tokens
        self.token_ids, self.sets = shared_token_ids(self.prompts), sets
        text = model.config.get_text_config()
        self.depth, self.heads = text.num_hidden_layers, text.num_attention_heads
        some = torch.linspace(0, self.depth - 1, min(layers, self.depth)).round().int().tolist()
        self.ablated = [(layer, head) for layer in some for head in range(self.heads)]
        self.setting = Setting("mask", "label", 0, "first", 1)
        # The same sets of kept tokens for all: drawn once, with our way of compression.
        prompt = self.prompts.row(0, named=True)
        shown = observe(model, self.token_ids, prompt)
        self.kept = [
            METHODS[each.method](shown, 0, each.draw)[0][0].cpu() for each in sets_of(sets)
        ]

    def isolated(self) -> dict[int, Tensor]:
        """By layer, [T, T], true where isolation hides a token from another."""
        rows = isolated_positions(self.setting, self.prompts.row(0, named=True), 10**9)
        hidden = torch.zeros(self.ids.shape[1], self.ids.shape[1], dtype=torch.bool)
        hidden[rows] = ~torch.eye(len(hidden), dtype=torch.bool)[rows]
        return dict.fromkeys(self.setting.isolated_layers(self.depth), hidden)

    def dropped(self, kept: Tensor) -> dict[int, Tensor]:
        """The same for tokens that queries don't see in any layer."""
        hidden = torch.zeros(self.ids.shape[1], self.ids.shape[1], dtype=torch.bool)
        hidden[len(self.token_ids) :, : len(self.token_ids)] = True
        hidden[:, kept] = False
        return dict.fromkeys(range(self.depth), hidden)

    def change(self, logits: Sequence[Tensor]) -> Tensor:
        """Change of log-probabilities of label words from the first logits, [settings, B, C]."""
        logs = torch.stack(list(logits)).double().log_softmax(-1)
        return logs[1:] - logs[0]


class Matrices:
    """A sink that keeps I_l of every layer, [L, B, T, T]."""

    def __init__(self, work: Work) -> None:
        tokens = work.ids.shape[1]
        self.found = torch.zeros(work.depth, len(work.ids), tokens, tokens)

    def take(
        self, layer: int, rows: slice, keys: slice, saliency: Tensor, examples: slice = ALL
    ) -> None:
        self.found[layer, examples, rows, keys] = saliency.abs_()


class Ours:
    """The measurements of this package."""

    name = "anchorflow"

    def __init__(self, model: PreTrainedModel, work: Work) -> None:
        self._model, self._work = model, work

    def saliency(self) -> Tensor:
        work, matrices = self._work, Matrices(self._work)
        demonstrations = SharedSaliency(self._model, work.token_ids)
        (queries,) = batches_of(work.prompts, 10**9, CPU, demonstrations.prefix.tokens)
        demonstrations.measure(queries, matrices)
        order = [queries.examples.index(example) for example in work.batch.examples]
        return matrices.found[:, order]

    def isolation(self) -> Tensor:
        work = self._work
        frame = quietly(measure_isolation, self._model, work.prompts, [work.setting], 1, BATCH)
        found = []
        for which in ("none", "label"):
            of_which = frame.filter(positions=which).sort("example")["probabilities"].to_list()
            found.append(torch.tensor(of_which)[work.batch.examples].log())
        return work.change(found)

    @torch.no_grad()
    def ablation(self) -> Tensor:
        model, work = self._model, self._work
        prefix = compute_prefix(model, work.token_ids)
        tokens = keep_together(model, work.prompts, prefix, Budget(BATCH))
        recorded = RecordOutputs()
        with keep_outputs(model, range(work.depth)) as kept, intervene(tokens, recorded):
            found = [tokens.logits(model)]
        nothing = {layer: torch.zeros_like(of) for layer, of in recorded.found.items()}
        for layer, head in work.ablated:
            below = resume(model, kept[layer - 1]) if layer else contextlib.nullcontext()
            with below, intervene(tokens, ReplaceOutputs(nothing, {layer: [head]})):
                found.append(tokens.logits(model))
        return work.change(found)

    def compression(self) -> Tensor:
        model, work = self._model, self._work
        intact = predict(model, work.prompts, BATCH, shared=True)
        found = [intact, *shared(model, work.prompts, work.sets, BATCH)]
        return work.change([logits[:, work.label_tokens] for logits in found])


class WholePrompts:
    """A library that runs whole prompts, with hooks of its own."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def attention(self) -> tuple[list[Tensor], Tensor]:
        """Attention of all layers, [B, H, T, T], which keeps its gradient, and label logits."""
        raise NotImplementedError

    def predict(
        self, hidden: Mapping[int, Tensor] | None = None, ablated: tuple[int, int] | None = None
    ) -> Tensor:
        """Logits of label words, [B, C], with tokens hidden in some layers, or without a head."""
        raise NotImplementedError

    def saliency(self) -> Tensor:
        attention, logits = self.attention()
        labels = self._work.batch.labels
        nn.functional.cross_entropy(logits, labels, reduction="sum").backward()
        with torch.no_grad():
            return torch.stack([(each * each.grad).sum(1).abs() for each in attention])

    @torch.no_grad()
    def isolation(self) -> Tensor:
        hidden = self._work.isolated()
        return self._work.change([self.predict(), self.predict(hidden)])

    @torch.no_grad()
    def ablation(self) -> Tensor:
        found = [self.predict(ablated=which) for which in (None, *self._work.ablated)]
        return self._work.change(found)

    @torch.no_grad()
    def compression(self) -> Tensor:
        sets = [self._work.dropped(kept) for kept in self._work.kept]
        return self._work.change([self.predict(hidden) for hidden in ({}, *sets)])

    def _labels(self, logits: Tensor) -> Tensor:
        return logits[:, -1, self._work.label_tokens]


def _masked(mask: Tensor, hidden: Tensor) -> Tensor:
    """Scores, or a mask that is added to them, with some hidden tokens."""
    return mask.masked_fill(hidden, torch.finfo(mask.dtype).min)


class Plain(WholePrompts):
    """transformers' eager attention, with hooks of torch."""

    name = "plain"

    def __init__(self, model: PreTrainedModel, work: Work) -> None:
        super().__init__(work)
        self._model, self._layers = model, model.get_decoder().layers

    def attention(self) -> tuple[list[Tensor], Tensor]:
        embeddings = self._model.get_input_embeddings()(self._work.ids).detach().requires_grad_()
        output = self._model(
            inputs_embeds=embeddings, output_attentions=True, use_cache=False, logits_to_keep=1
        )
        for attention in output.attentions:
            attention.retain_grad()
        return list(output.attentions), self._labels(output.logits)

    def predict(
        self, hidden: Mapping[int, Tensor] | None = None, ablated: tuple[int, int] | None = None
    ) -> Tensor:
        def hide(tokens: Tensor, _: nn.Module, given: Any, named: dict[str, Any]) -> Any:
            return given, {**named, "attention_mask": _masked(named["attention_mask"], tokens)}

        def ablate(module: nn.Module, given: tuple[Tensor]) -> Tensor:
            outputs = given[0].unflatten(-1, (self._work.heads, -1)).clone()
            outputs[:, -1, ablated[1]] = 0
            return outputs.flatten(2)

        with contextlib.ExitStack() as undo:
            for layer, tokens in (hidden or {}).items():
                module = self._layers[layer].self_attn
                hook = module.register_forward_pre_hook(partial(hide, tokens), with_kwargs=True)
                undo.enter_context(hook)
            if ablated is not None:
                module = self._layers[ablated[0]].self_attn.o_proj
                undo.enter_context(module.register_forward_pre_hook(ablate))
            output = self._model(input_ids=self._work.ids, use_cache=False, logits_to_keep=1)
        return self._labels(output.logits)


class TransformerLens(WholePrompts):
    """TransformerLens's bridge, with its hooks."""

    name = "transformer-lens"

    def __init__(self, model: PreTrainedModel, work: Work) -> None:
        super().__init__(work)
        sources = importlib.import_module("transformer_lens.model_bridge.sources")
        self._bridge = sources.build_bridge_from_module(
            model, type(model).__name__, hf_config=copy.deepcopy(model.config)
        )
        self._run = partial(self._bridge.run_with_hooks, work.ids, logits_to_keep=1)

    def attention(self) -> tuple[list[Tensor], Tensor]:
        found: dict[str, Tensor] = {}

        def keep(pattern: Tensor, hook: Any) -> None:
            pattern.retain_grad()
            found[hook.name] = pattern

        def leaf(embeddings: Tensor, hook: Any) -> Tensor:
            return embeddings.detach().requires_grad_()

        names = [f"blocks.{layer}.attn.hook_pattern" for layer in range(self._work.depth)]
        hooks = [("hook_embed", leaf), *((name, keep) for name in names)]
        logits = self._run(fwd_hooks=hooks)
        return [found[name] for name in names], self._labels(logits)

    def predict(
        self, hidden: Mapping[int, Tensor] | None = None, ablated: tuple[int, int] | None = None
    ) -> Tensor:
        def hide(tokens: Tensor, scores: Tensor, hook: Any) -> Tensor:
            return _masked(scores, tokens)

        def ablate(outputs: Tensor, hook: Any) -> Tensor:
            outputs = outputs.clone()
            outputs[:, -1, ablated[1]] = 0
            return outputs

        hooks = [
            (f"blocks.{layer}.attn.hook_attn_scores", partial(hide, tokens))
            for layer, tokens in (hidden or {}).items()
        ]
        if ablated is not None:
            hooks.append((f"blocks.{ablated[0]}.attn.hook_z", ablate))
        return self._labels(self._run(fwd_hooks=hooks))


class NNsight(WholePrompts):
    """nnsight, with its traces."""

    name = "nnsight"

    def __init__(self, model: PreTrainedModel, work: Work) -> None:
        super().__init__(work)
        self._embed = model.get_input_embeddings()
        self._nnsight = importlib.import_module("nnsight")
        self._traced = self._nnsight.NNsight(model)

    def attention(self) -> tuple[list[Tensor], Tensor]:
        embeddings = self._embed(self._work.ids).detach().requires_grad_()
        traced, save = self._traced, self._nnsight.save
        with traced.trace(inputs_embeds=embeddings, use_cache=False, logits_to_keep=1):
            found = [layer.self_attn.output[1] for layer in traced.model.layers]
            for attention in found:
                attention.retain_grad()
            found = save(found)
            logits = save(traced.output.logits)
        return found, self._labels(logits)

    def predict(
        self, hidden: Mapping[int, Tensor] | None = None, ablated: tuple[int, int] | None = None
    ) -> Tensor:
        traced, save, hide = self._traced, self._nnsight.save, _masked
        size = self._embed.embedding_dim if ablated is None else self._size()
        with traced.trace(input_ids=self._work.ids, use_cache=False, logits_to_keep=1):
            for layer, tokens in sorted((hidden or {}).items()):
                module = traced.model.layers[layer].self_attn
                given, named = module.inputs
                masked = hide(named["attention_mask"], tokens)
                module.inputs = (given, {**named, "attention_mask": masked})
            if ablated is not None:
                layer, head = ablated
                outputs = traced.model.layers[layer].self_attn.o_proj.input
                outputs[:, -1, head * size : (head + 1) * size] = 0
            logits = save(traced.output.logits)
        return self._labels(logits)

    def _size(self) -> int:
        """Elements of a head's output."""
        projection = self._traced.model.layers[0].self_attn.o_proj
        return int(projection.in_features) // self._work.heads


class KVPress:
    """kvpress, with a press that keeps given positions; it has no other of these measurements."""

    name = "kvpress"

    def __init__(self, model: PreTrainedModel, work: Work) -> None:
        self._model, self._work = model, work

        class Keep(kvpress.BasePress):
            """Keep the same positions in every layer and head."""

            def __init__(self, kept: Tensor) -> None:
                self._kept = kept

            def compress(
                self, _: Any, __: Any, keys: Tensor, values: Tensor, *rest: Any
            ) -> tuple[Tensor, Tensor]:
                return keys[:, :, self._kept], values[:, :, self._kept]

        self._press = Keep

    @torch.no_grad()
    def compression(self) -> Tensor:
        every = torch.arange(len(self._work.token_ids))
        return self._work.change([self._after(kept) for kept in (every, *self._work.kept)])

    def _after(self, kept: Tensor) -> Tensor:
        """Logits of label words, as the pipeline of kvpress computes them, [B, C]."""
        model, shared = self._model, len(self._work.token_ids)
        cache, found = DynamicCache(), []
        with self._press(kept)(model):
            # transformers from 5.3 on no longer passes these positions on by itself.
            places = torch.arange(shared)
            model.model(self._work.ids[:1, :shared], past_key_values=cache, cache_position=places)
        for ids in self._work.ids[:, None, shared:]:
            after = torch.arange(shared, shared + ids.shape[1])[None]
            output = model(ids, past_key_values=cache, position_ids=after, logits_to_keep=1)
            found.append(output.logits[0, -1, self._work.label_tokens])
            for layer in cache.layers:  # the next query follows the demonstrations alone
                layer.keys = layer.keys[:, :, : len(kept)]
                layer.values = layer.values[:, :, : len(kept)]
        return torch.stack(found)


def own(model: PreTrainedModel) -> PreTrainedModel:
    """Another instance of the model, with the same parameters in memory."""
    return copy.deepcopy(model, {id(parameter): parameter for parameter in model.parameters()})


def installed() -> dict[str, str | None]:
    """Version of each peer; None if it is not installed."""
    found: dict[str, str | None] = {}
    for name in PEERS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def ways_of(model: PreTrainedModel, texts: int, layers: int, sets: int) -> list[Any]:
    """Our way, the plain way, and the peers that are installed."""
    adopted = own(model)
    adopt(adopted)
    work = Work(adopted, texts, layers, sets)
    peers = {"transformer-lens": TransformerLens, "nnsight": NNsight, "kvpress": KVPress}
    present = [peers[name] for name, version in installed().items() if version is not None]
    return [Ours(adopted, work), *(way(own(model), work) for way in (Plain, *present))]


class Taken(NamedTuple):
    """Seconds of every round, peak memory in MB, and the numbers."""

    seconds: list[float]
    memory: float
    numbers: Tensor


def in_turn(runs: Mapping[str, Callable[[], Tensor]], rounds: int) -> dict[str, Taken]:
    """Every run once for its numbers, once for its memory, and then once per round."""
    numbers = {name: run() for name, run in runs.items()}
    found = {}
    for name, run in runs.items():
        before = reset_peak(CPU)
        run()
        found[name] = Taken([], peak(CPU) - before, numbers[name])
    gc.collect()
    for each in range(rounds):
        for name in list(runs)[:: -1 if each % 2 else 1]:
            start = time.perf_counter()
            runs[name]()
            found[name].seconds.append(time.perf_counter() - start)
    return found


def difference(numbers: Tensor, others: Tensor) -> float:
    """The largest difference, relative to the largest of the others."""
    return float((numbers - others).abs().max() / others.abs().max())


def rows(ways: Sequence[Any], rounds: int) -> Iterator[list[str]]:
    """Rows of the table."""
    for measurement in MEASUREMENTS:
        runs = {way.name: getattr(way, measurement) for way in ways if hasattr(way, measurement)}
        found = in_turn(runs, rounds)
        ours, plain = (found[way.name] for way in ways[:2])
        for name, taken in found.items():
            times = min(taken.seconds) / min(ours.seconds)
            yield [
                measurement,
                name,
                f"{statistics.median(taken.seconds):.2f}",
                f"{min(taken.seconds):.2f}",
                "–" if taken is ours else f"{times:.1f}",
                f"{taken.memory:.0f}",
                "–" if taken is ours else f"{difference(taken.numbers, ours.numbers):.0e}",
                "–" if taken is plain else f"{difference(taken.numbers, plain.numbers):.0e}",
            ]


def lines(arguments: argparse.Namespace) -> Iterator[str]:
    """What is printed: machine and versions, the table, and what is not installed."""
    if arguments.model:
        model = open_model(arguments.model, CPU, eager=True).float()
        what = f"`{arguments.model.name}`"
    else:
        model = random_model(arguments.shape, torch.float32, CPU, eager=True)
        what = f"random weights of {arguments.shape}'s shape"
    ways = ways_of(model, arguments.texts, arguments.layers, arguments.sets)
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    absent = [name for name, version in installed().items() if version is None]
    versions |= {name: version for name, version in installed().items() if version is not None}
    yield (
        f"With {what} on {machine()}, {torch.get_num_threads()} threads, in float32: "
        f"{arguments.texts} prompts of {QUERY * TIMES} tokens, {QUERY} of them the query's; "
        f"{len(ways[0]._work.ablated)} heads; {arguments.sets} sets of kept tokens. Versions: "
        f"{', '.join(f'{name} {version}' for name, version in versions.items())}."
    )
    yield ""
    yield from table(
        (
            "measurement",
            "way",
            "s, median",
            "s, least",
            "least, times ours",
            "MB",
            "difference from ours",
            "from plain",
        ),
        rows(ways, arguments.rounds),
    )
    if absent:
        yield f"Not installed, so not measured: {', '.join(absent)}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--model", type=Path, help="a resolved model, results/models/…")
    source.add_argument("--shape", choices=SHAPES, default="smollm2-135m", help="random weights")
    parser.add_argument("--texts", type=int, default=4)
    parser.add_argument("--layers", type=int, default=3, help="layers whose heads are set to 0")
    parser.add_argument("--sets", type=int, default=5, help="sets of kept tokens")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="to docs/reference/performance.md")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.write:
        write_section(PAGE, "peers", lines(arguments))
    else:
        for line in lines(arguments):
            print(line, flush=True)


if __name__ == "__main__":
    main()
