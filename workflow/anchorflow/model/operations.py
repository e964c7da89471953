"""How many operations a job asks of a model, and how long they take at a machine's own rates.

In a pass through the layers, every token is multiplied with all weights, of experts only with those
that it is given to, and every query with its keys. A pass takes as long as its operations at the
rate of matrix products of many tokens, and as reading the weights at the rate of products of few. A
backward pass to frozen weights takes as many operations as a forward pass.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any, NamedTuple

import polars as pl
import torch
from torch import nn
from torch.nn.functional import linear
from transformers import PretrainedConfig, PreTrainedModel

from anchorflow.config.registry import declared, entries
from anchorflow.depth import bands_of

SHARE = 0.7  # of the rate of matrix products that a pass reaches, norms and softmax included
PER_LAYER = 5e-4  # seconds that the many small operations of a layer take by themselves
PER_JOB = 0.7  # seconds for libraries, tokenizer, and opening the weights
_HEAD_ROWS = 64  # prompts that share a pass of the head


class Prompts(NamedTuple):
    """Prompts of one protocol, by their average."""

    number: float
    shared: float  # tokens of the demonstrations
    own: float  # tokens after them


class Passes(NamedTuple):
    """Passes through all layers; those through some of them count as their share."""

    number: float
    tokens: float  # in each
    keys: float  # that each of them attends to, on average
    scored: float = 0  # passes of the head, for scores of the whole vocabulary
    together: float = 1  # prompts in each of these


class Size(NamedTuple):
    """What the operations of a model depend on."""

    layers: int
    weights: int  # parameters of all layers
    head: int  # parameters of the output embeddings
    heads: int  # sizes of all query heads together
    hidden: int
    itemsize: int  # bytes of a parameter
    spared: int = 0  # weights that a token is not multiplied with: those of other experts

    @classmethod
    def of(cls, model: PreTrainedModel) -> "Size":
        """Of a model on any device."""
        text = model.config.get_text_config()
        head: nn.Parameter = model.get_output_embeddings().weight
        outside = looked_up(model) | {id(head)}
        weights = {name: p for name, p in model.named_parameters() if id(p) not in outside}
        layers = text.per_layer_config if getattr(text, "is_heterogeneous", False) else [text]
        return cls(
            layers=text.num_hidden_layers,
            weights=sum(each.numel() for each in weights.values()),
            head=head.numel(),
            heads=round(sum(map(_head_sizes, layers)) / len(layers)),
            hidden=text.hidden_size,
            itemsize=model.dtype.itemsize,
            spared=_spared(weights, getattr(text, "num_experts_per_tok", None)),
        )


def looked_up(model: PreTrainedModel) -> set[int]:
    """The ``id`` of every table of embeddings, of which a pass reads the rows of its tokens."""
    return {id(each.weight) for each in model.modules() if isinstance(each, nn.Embedding)}


def _head_sizes(layer: PretrainedConfig) -> int:
    """The sizes of all query heads of a layer together."""
    heads: int = layer.num_attention_heads
    size: int = getattr(layer, "head_dim", None) or layer.hidden_size // heads
    return heads * size


def _spared(weights: Mapping[str, nn.Parameter], chosen: int | None) -> int:
    """The weights of all experts but those ``chosen`` for a token; experts come first in shapes."""
    if not chosen:
        return 0
    of_experts = [each for name, each in weights.items() if "expert" in name and each.dim() == 3]
    return sum(each.numel() - each[:chosen].numel() for each in of_experts)


class Rates(NamedTuple):
    """What a machine does per second."""

    operations: float
    bytes: float  # of weights, multiplied with few tokens


Protocols = defaultdict[str, Prompts]  # by name, as in the column ``demonstrations``
Counted = Callable[[Protocols, Mapping[str, Any], int, int], list[Passes]]


def run_by(stage: str, spec: Mapping[str, Any], prompts: pl.DataFrame) -> pl.DataFrame:
    """The prompts that a stage runs, of all that it is given."""
    protocol = pl.col("demonstrations")
    other = protocol != "per_example"
    shown = protocol == spec.get("demonstrations", "fixed")
    wanted = shown if stage in WITH_GRADIENTS else other
    run = prompts.filter(wanted, pl.col("skipped").is_null())
    return run.head(int(most_texts(stage, spec, len(run))))


def most_texts(stage: str, spec: Mapping[str, Any], texts: float) -> float:
    """How many texts a stage runs of those that it may; some take the first few alone."""
    first = ("token_saliency", "knockout", "faithfulness", "cutoff", "transplant")
    key = {"timing": "queries", **dict.fromkeys(first, "examples")}.get(stage, "")
    return float(min(texts, spec.get(key, texts)))


def by_protocol(prompts: pl.DataFrame) -> Protocols:
    """The prompts of each protocol; none of any other."""
    groups = prompts.group_by("demonstrations").agg(
        pl.len(), pl.col("query_start").mean(), pl.col("tokens").mean()
    )
    found: Protocols = defaultdict(lambda: Prompts(0, 0, 0))
    for name, count, shared, tokens in groups.iter_rows():
        found[name] = Prompts(count, shared, tokens - shared)
    return found


def _shown(prompts: Prompts, times: float = 1) -> Passes:
    """The shared demonstrations by themselves."""
    return Passes(times, prompts.shared, prompts.shared / 2)


def _batches(prompts: Prompts, tokens: float, batch_tokens: int) -> tuple[int, float]:
    """The number of batches of prompts that run ``tokens`` each, and of prompts in each."""
    number = ceil(prompts.number / max(1, batch_tokens // max(1, tokens)))
    return max(1, number), prompts.number / max(1, number)


def _queries(prompts: Prompts, batch_tokens: int, times: float = 1, scored: float = 1) -> Passes:
    """What follows the shared demonstrations; every ``scored`` time, the vocabulary is scored."""
    number, together = _batches(prompts, prompts.own, batch_tokens)
    keys = prompts.shared + prompts.own / 2
    return Passes(times * number, together * prompts.own, keys, scored * number, together)


def _heads(prompts: Prompts, times: float) -> Passes:
    """Passes of the head alone, for prompts of several runs."""
    return Passes(0, 0, 0, times * prompts.number / _HEAD_ROWS, _HEAD_ROWS)


def _last_tokens(prompts: Prompts, batch_tokens: int, times: float) -> Passes:
    """The last token of each prompt, on kept keys and values."""
    number, together = _batches(prompts, prompts.own, batch_tokens)
    keys = prompts.shared + prompts.own
    return Passes(times * number, together, keys)


def _fit(training: Prompts, spec: Mapping[str, Any], further: Sequence[float]) -> Passes:
    """Fits of β side by side: of every rate to all texts, and to halves if rates are compared.

    All are on everything, and those without further rates on the anchors alone too.
    """
    rates, size = spec["learning_rates"], spec["batch_size"] or ceil(training.number) or 1
    steps = spec["epochs"] * ceil(training.number / size)
    halves = len(rates) if len(rates) > 1 else 0  # two for each rate
    runs = len({*rates, *further}) + halves
    if spec["anchors"] is not None:
        runs += len(set(rates)) + halves
    tokens = runs * spec["epochs"] * training.number
    return Passes(2 * steps, tokens / max(1, steps), training.shared + training.own)


def predictions(
    protocols: Protocols, _: Mapping[str, Any], __: int, batch_tokens: int
) -> list[Passes]:
    """Every prompt once, after its shared demonstrations."""
    run = protocols.values()
    return [part for each in run for part in (_shown(each), _queries(each, batch_tokens))]


def kept(protocols: Protocols, _: Mapping[str, Any], __: int, batch_tokens: int) -> list[Passes]:
    """Every prompt once, for what its layers keep."""
    run = protocols.values()
    return [part for each in run for part in (_shown(each), _queries(each, batch_tokens, 1, 0))]


def whole(protocols: Protocols, _: Mapping[str, Any], __: int, batch_tokens: int) -> list[Passes]:
    """Every prompt once, with demonstrations of its own."""
    return [
        _queries(each._replace(shared=0, own=each.shared + each.own), batch_tokens)
        for each in protocols.values()
    ]


def saliency(
    protocols: Protocols, spec: Mapping[str, Any], _: int, batch_tokens: int
) -> list[Passes]:
    """A forward and a backward pass, with two and five products of queries and keys.

    With shared demonstrations, these run forward once, and backward for every prompt.
    """
    prompts = protocols[spec["demonstrations"]]
    tokens = prompts.shared + prompts.own
    number, together = _batches(prompts, tokens, batch_tokens)
    if spec["demonstrations"] == "per_example":
        return [Passes(2 * number, together * tokens, 7 / 4 * tokens / 2)]
    return [
        _shown(prompts),
        _shown(prompts, prompts.number)._replace(keys=5 / 2 * prompts.shared / 2),
        Passes(2 * number, together * prompts.own, 7 / 4 * (tokens - prompts.own / 2)),
    ]


def token_saliency(
    protocols: Protocols, spec: Mapping[str, Any], depth: int, _: int
) -> list[Passes]:
    """One whole prompt at a time, forward and backward; then with each of three flows cut.

    They are cut in every layer, and run from it on.
    """
    prompts = protocols[spec["demonstrations"]]
    tokens = prompts.shared + prompts.own
    layers = [first for _, first, _ in bands_of("single", depth)]
    times = 1 + sum((depth - layer) / depth for layer in layers)
    return [
        Passes(2 * prompts.number, tokens, 7 / 4 * tokens / 2),
        Passes(times * prompts.number, 3 * tokens, tokens / 2),
    ]


def kernel(
    protocols: Protocols, spec: Mapping[str, Any], _: int, batch_tokens: int
) -> list[Passes]:
    """Every prompt, the texts by themselves in two ways, and with fewer demonstrations.

    ``spec`` has ``smaller`` too, how many times demonstrations are left out, each time about half.
    """
    whole = protocols["kernel"]
    shown = whole.shared / max(1, whole.own)  # texts, taken to be as long as those of the test
    alone = Prompts(whole.number + shown, 0, whole.own)
    halved = [2.0**-times for times in range(1, 1 + spec["smaller"])]
    return [
        _shown(whole),
        _queries(whole, batch_tokens),
        *2 * [_queries(alone, batch_tokens)],
        *(_queries(whole._replace(shared=h * whole.shared), batch_tokens, 1, 0) for h in halved),
    ]


def isolated_shares(spec: Mapping[str, Any], depth: int) -> list[float]:
    """For every setting of isolation, the share of the layers from the first isolated one on."""
    drawn = ("random", "text")
    placed = sum(spec["draws"] if each in drawn else 1 for each in spec["positions"])
    counts = spec.get("layers") or [count for count in (1, 3, 5, 7) if count <= depth]
    sides = [share for count in counts for share in (1.0, count / depth)]
    return len(spec["variants"]) * placed * sides


def isolation(
    protocols: Protocols, spec: Mapping[str, Any], depth: int, batch_tokens: int
) -> list[Passes]:
    """Demonstrations and queries of every setting, from the isolated layers on."""
    prompts, shares = protocols["fixed"], isolated_shares(spec, depth)
    times = 1 + sum(shares)
    return [
        _shown(prompts, times),
        _queries(prompts, batch_tokens, times - len(shares) / depth, 0),
        _heads(prompts, 1 + len(shares)),
    ]


CUTS_AT_ONCE = 8  # cuts whose keys and values of the demonstrations are kept at once


def cut_shares(spec: Mapping[str, Any], depth: int) -> tuple[list[float], list[float]]:
    """The share of the layers that each cut of edges runs again, of demonstrations and of queries.

    Edges into the target or the query leave the demonstrations as they are.
    """
    bands = [band for name in spec["layers"] for band in bands_of(name, depth)]
    shares = [(depth - first) / depth for _, first, _ in bands]
    inner = [name for name in spec["classes"] if not name.endswith(("_target", "_query"))]
    drawn = (1 + spec["draws"]) * shares
    return drawn * len(inner), drawn * len(spec["classes"])


def knockout(
    protocols: Protocols, spec: Mapping[str, Any], depth: int, batch_tokens: int
) -> list[Passes]:
    """Demonstrations and queries of every cut, from its first layer on."""
    prompts = protocols["fixed"]
    prompts = prompts._replace(number=min(prompts.number, spec.get("examples", prompts.number)))
    shown, asked = cut_shares(spec, depth)
    untouched = ceil((1 + len(asked)) / CUTS_AT_ONCE)
    return [
        _shown(prompts, 1 + sum(shown)),
        _queries(prompts, batch_tokens, untouched + sum(asked), 0),
        _heads(prompts, 1 + len(asked)),
    ]


def faithfulness(
    protocols: Protocols, spec: Mapping[str, Any], depth: int, batch_tokens: int
) -> list[Passes]:
    """Forward and backward for saliency, forward for attention, and each step from its layer on."""
    prompts = protocols["fixed"]
    prompts = prompts._replace(number=min(prompts.number, spec.get("examples", prompts.number)))
    tokens = prompts.shared + prompts.own
    number, together = _batches(prompts, tokens, batch_tokens)
    times = 4 + spec["steps"] * depth
    return [Passes(times * number, together * tokens, 7 / 4 * tokens / 2)]


def cutoff(
    protocols: Protocols, spec: Mapping[str, Any], depth: int, batch_tokens: int
) -> list[Passes]:
    """Queries from every layer on from which demonstrations are left out."""
    prompts = protocols["fixed"]
    prompts = prompts._replace(number=min(prompts.number, spec.get("examples", prompts.number)))
    drawn = sum(spec["draws"] if name == "random" else 1 for name in spec["sees"])
    shares = [(depth - layer) / depth for layer in range(0, depth, spec["every"])]
    runs = drawn * len(shares)
    asked = drawn * sum(shares) + ceil(runs / CUTS_AT_ONCE)
    return [_shown(prompts), _queries(prompts, batch_tokens, asked, 0), _heads(prompts, 1 + runs)]


def transplant(
    protocols: Protocols, spec: Mapping[str, Any], _: int, batch_tokens: int
) -> list[Passes]:
    """Donors, demonstrations above each layer, and queries above what is taken, half on average."""
    prompts = protocols["fixed"]
    prompts = prompts._replace(number=min(prompts.number, spec.get("examples", prompts.number)))
    inner, donors = spec["depths"] - 1, len(spec["donors"]) * spec["draws"]
    single = donors * len(spec["places"]) * inner * ("residual" in spec["what"])
    bands = donors * len(spec["places"]) * (2 + 2 * inner) * ("keys_values" in spec["what"])
    runs = donors + single + bands
    asked = donors + single / 2 + bands * 3 / 4 + ceil(runs / CUTS_AT_ONCE)
    return [
        _shown(prompts, 1 + donors + single / 2),
        _queries(prompts, batch_tokens, asked, 0),
        _heads(prompts, 1 + runs),
    ]


def reweighting(
    protocols: Protocols, spec: Mapping[str, Any], _: int, batch_tokens: int
) -> list[Passes]:
    """All prompts but their last tokens, the fits of β, and the last tokens with every β."""
    test, training = protocols["fixed"], protocols["training"]
    others = [protocols[name] for name in ("many", *spec["baselines"]) if name in protocols]
    passes = [_shown(test), _shown(protocols["many"])]
    passes.append(_fit(training, spec, spec["further_rates"]))
    again = [training] if spec["anchors"] is not None else []  # after the anchors alone
    passes += [_queries(each, batch_tokens, 1, 0) for each in (test, training, *again, *others)]
    passes += [_last_tokens(each, batch_tokens, 1) for each in (training, *others)]
    return [*passes, _last_tokens(test, batch_tokens, 2 + len(spec["further_rates"]))]


def compression(
    protocols: Protocols, spec: Mapping[str, Any], _: int, batch_tokens: int
) -> list[Passes]:
    """Every cache's queries, and the last tokens again with each β.

    ``spec`` has ``betas`` too, the number of caches that β was fitted on.
    """
    folder = "measure/compression_methods"
    known = [name for name in spec["methods"] if name in entries(folder)]
    drawn = sum(declared(folder, name, "RANDOM", False) for name in known)
    swept = sum(declared(folder, name, "ANY_BUDGET", False) for name in known)
    caches = 1 + len(spec["methods"]) + drawn * (spec["draws"] - 1) + swept * len(spec["shares"])
    test, betas = protocols["fixed"], spec["betas"]
    return [
        _shown(test),
        _queries(test, batch_tokens, caches, 0),
        _last_tokens(test, batch_tokens, 2 * betas),
        _heads(test, caches + betas),
    ]


def timing(protocols: Protocols, spec: Mapping[str, Any], _: int, __: int) -> list[Passes]:
    """Some queries again and again: in full prompts, and after each of five caches or more."""
    some = protocols["fixed"]
    full = some._replace(shared=0, own=some.shared + some.own)
    times = (1 + spec["repetitions"]) * ceil(some.number / spec["batch_size"])
    each = [(full, times), (some, (5 + len(spec.get("also", ()))) * times)]
    size = spec["batch_size"]
    return [
        Passes(times, size * run.own, run.shared + run.own / 2, times, size) for run, times in each
    ]


OF_STAGE: Mapping[str, Counted] = {
    "attention": predictions,
    "diagnosis": kept,
    "kernel": kernel,
    "orders": predictions,
    "perturbations": predictions,
    "retrieval": whole,
    "saliency": saliency,
    "token_saliency": token_saliency,
    "isolation": isolation,
    "knockout": knockout,
    "faithfulness": faithfulness,
    "cutoff": cutoff,
    "transplant": transplant,
    "reweighting": reweighting,
    "compression": compression,
    "timing": timing,
}
WITH_GRADIENTS = ("saliency", "token_saliency", "faithfulness")
WHOLE = (*WITH_GRADIENTS, "retrieval")  # without shared demonstrations


def operations(passes: Sequence[Passes], size: Size) -> float:
    """Additions and multiplications of some passes."""
    return sum(
        2 * (size.weights - size.spared) * each.number * each.tokens
        + 4 * size.layers * size.heads * each.number * each.tokens * each.keys
        + 2 * size.head * each.scored * each.together
        for each in passes
    )


def seconds(passes: Sequence[Passes], size: Size, rates: Rates, jobs: float = 1) -> float:
    """How long jobs take: operations, the weights that passes read, and what begins them."""
    number, scored = sum(each.number for each in passes), sum(each.scored for each in passes)
    read = size.itemsize * (number * size.weights + scored * size.head)
    computing = operations(passes, size) / (SHARE * rates.operations)
    return computing + read / rates.bytes + number * size.layers * PER_LAYER + jobs * PER_JOB


def in_words(protocols: Protocols, passes: Sequence[Passes], size: Size, rates: Rates) -> str:
    """The sentence of a job's log about its time."""
    count = sum(each.number for each in protocols.values())
    longest = max(each.shared + each.own for each in protocols.values())
    return (
        f"{count} prompts of {longest:.0f} tokens, {operations(passes, size) / 1e12:.2f} "
        f"teraoperations in {sum(each.number for each in passes):.0f} passes: about "
        f"{seconds(passes, size, rates):.0f} s at the measured {rates.operations / 1e9:.0f} "
        f"gigaoperations and {rates.bytes / 1e9:.1f} GB of weights per second"
    )


@torch.no_grad()
def measured_rates(size: Size, dtype: torch.dtype, device: torch.device) -> Rates:
    """The machine's rates, from products with a matrix of the model's width; some 0.3 seconds.

    It is as large as the weights of some layers, so that no cache holds it.
    """
    large = torch.ones(2**24 // size.hidden, size.hidden, dtype=dtype, device=device)
    few, many = (torch.ones(tokens, size.hidden, dtype=dtype, device=device) for tokens in (8, 256))
    return Rates(
        2 * len(many) * large.numel() / _usual(lambda: linear(many, large), device),
        large.nbytes / _usual(lambda: linear(few, large), device),
    )


def _usual(run: Callable[[], object], device: torch.device) -> float:
    """Median seconds of three runs, after a first one; on a CPU, of its own threads alone."""
    taken = []
    for _ in range(4):
        start = _now(device)
        run()
        taken.append(_now(device) - start)
    return sorted(taken[1:])[1]


def _now(device: torch.device) -> float:
    if device.type == "cpu":  # which may be shared with other processes just now
        return time.process_time() / torch.get_num_threads()
    torch.cuda.synchronize()
    return time.perf_counter()
