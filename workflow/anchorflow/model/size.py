"""What memory and time of a job depend on: the model's size, its prompts, and how often they run.

The function ``cost`` in an analysis's ``measure.py`` counts the tokens that it runs. For the time,
every token is multiplied with the weights of all layers. Not counted are the output head, which is
large in models with a large vocabulary and few layers, and products of queries and keys, a tenth
of the operations for prompts of some hundred tokens.

In addition to the weights, a batch takes six hidden states per token and the activations of the
largest layer: about the number of its weights divided by the size of the hidden state. What a stage
keeps is added: keys and values of all layers, once more for every copy of the demonstrations; or,
for a backward pass, the activations of every layer, or only its input if they are recomputed.

On the CPU, weights are mapped from their file, so those that a job does not read take no memory,
and the heap exceeds what is in use by the factor :data:`HEAP`. Not counted are Python and its
libraries (0.5 GB), a GPU's context, and the results that a stage keeps until it writes them.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, NamedTuple

import polars as pl
import psutil
import torch
from torch import nn
from transformers import AutoModelForCausalLM, PretrainedConfig

from anchorflow.config.errors import MORE_MEMORY, InputError
from anchorflow.model.attention_function import gpu_chunk_bytes
from anchorflow.model.devices import Rates
from anchorflow.model.layer_kinds import attention_layers, runs_again
from anchorflow.model.layers import decoder_layers

log = logging.getLogger(__name__)

HEAP = 1.2  # times the bytes in use, since freed ones lie between them; measured with glibc

SHARE = 0.7  # of a large matrix product's rate, which a model reaches
PER_LAYER = 5e-4  # seconds per step for a layer's many small operations
PER_JOB = 0.7  # seconds for libraries, tokenizer, and opening the weights


class Size(NamedTuple):
    """Numbers of parameters and of activations."""

    layers: int
    hidden: int
    keys_values: int  # numbers in a token's keys and values in one layer
    layer: int  # weights that a token is multiplied with, in the largest layer
    multiplied: int  # the same in all layers together
    parameters: int
    looked_up: int  # parameters of embedding tables, of which only the tokens' rows are read
    head: int  # parameters of the output embeddings, which may be tied to such a table
    itemsize: int  # bytes of a parameter
    attending: int | None = None  # layers that attend; by default, all
    state: bool = False  # whether demonstrations run again before every query

    @property
    def depth(self) -> int:
        """The number of layers that attend."""
        return self.layers if self.attending is None else self.attending

    @classmethod
    def of(cls, config: PretrainedConfig, dtype: torch.dtype) -> "Size":
        """Count the numbers of an architecture, in a model without storage (device "meta")."""
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
        text = config.get_text_config()
        configs = text.per_layer_config if getattr(text, "is_heterogeneous", False) else [text]
        chosen = getattr(text, "num_experts_per_tok", None)
        weights = [_multiplied(layer.named_parameters(), chosen) for layer in decoder_layers(model)]
        tables = {id(m.weight): m.weight for m in model.modules() if isinstance(m, nn.Embedding)}
        head = model.get_output_embeddings().weight
        return cls(
            layers=text.num_hidden_layers,
            hidden=text.hidden_size,
            keys_values=max(map(_keys_values, configs), default=0),
            layer=max(weights, default=0),
            multiplied=sum(weights),
            parameters=sum(parameter.numel() for parameter in model.parameters()),
            looked_up=sum(table.numel() for key, table in tables.items() if key != id(head)),
            head=head.numel(),
            itemsize=dtype.itemsize,
            attending=len(attention_layers(config)),
            state=runs_again(config),
        )


def _keys_values(layer: PretrainedConfig) -> int:
    """Numbers of a token's key and value in all heads of a layer."""
    heads: int = layer.num_attention_heads
    groups: int = getattr(layer, "num_key_value_heads", None) or heads
    size: int = getattr(layer, "head_dim", None) or layer.hidden_size // heads
    return 2 * groups * size


def _multiplied(named: Iterable[tuple[str, nn.Parameter]], chosen: int | None) -> int:
    """Weights that a token is multiplied with; of experts (first axis), the number ``chosen``."""
    return sum(
        (weight[:chosen] if "expert" in name and weight.dim() == 3 else weight).numel()
        for name, weight in named
    )


class Prompts(NamedTuple):
    """A job's prompts, by their number and their mean lengths."""

    texts: float  # test texts
    demonstrations: float  # tokens of the demonstrations
    query: float  # tokens after them
    labels: int
    further: float = 0  # tokens of whole label words, after each text

    @classmethod
    def of(
        cls, prompts: pl.DataFrame, scoring: Mapping[str, Any] = MappingProxyType({})
    ) -> "Prompts":
        """From ``PROMPTS``, those with fixed demonstrations if there are any, scored this way."""
        run = prompts.filter(pl.col("skipped").is_null())
        fixed = run.filter(demonstrations="fixed")
        run = run if fixed.is_empty() else fixed
        if run.is_empty():
            return cls(0, 0, 0, 1)
        demonstrations, tokens = run.select(pl.col("query_start", "tokens").mean()).row(0)
        begun: set[tuple[int, ...]] = set()  # words that differ in their last token run once
        if scoring.get("scoring") == "whole_word":
            begun = {tuple(word[:-1]) for word in run["word_tokens"][0].to_list()}
        further, labels = sum(map(len, begun)), len(run["label_tokens"][0])
        return cls(
            run["example"].n_unique(), demonstrations, tokens - demonstrations, labels, further
        )

    @property
    def again(self) -> "Prompts":
        """The same where demonstrations run again before every query."""
        whole = self.demonstrations + self.query
        return self._replace(demonstrations=0, query=whole)

    @property
    def asked(self) -> float:
        """Tokens after the demonstrations."""
        return self.texts * (self.query + self.further)

    @property
    def once(self) -> float:
        """Tokens of all prompts if the demonstrations run once for all of them."""
        return self.demonstrations + self.asked

    @property
    def whole(self) -> float:
        """Tokens of all prompts if each runs with its own demonstrations."""
        return self.texts * (self.demonstrations + self.query)


class Cost(NamedTuple):
    """Tokens that run through all layers; those through some of them count as their share."""

    forward: float
    backward: float = 0
    steps: float = 0  # passes of few tokens, which take as long as reading the weights
    copies: float = 1  # of the shared demonstrations' keys and values that are kept at once
    whole: bool = False  # batches are of whole prompts


CostOf = Callable[[Prompts, Mapping[str, Any], int], Cost]  # of prompts, a stage's spec, and depth


def once(prompts: Prompts, _: Mapping[str, Any], __: int) -> Cost:
    """Every text once, after shared demonstrations."""
    return Cost(prompts.once)


def cost_in(
    size: Size, cost: CostOf, prompts: Prompts, spec: Mapping[str, Any] = MappingProxyType({})
) -> Cost:
    """What a job costs in a model of this size."""
    return cost(prompts.again if size.state else prompts, spec, size.depth)


def seconds(cost: Cost, size: Size, rates: Rates) -> float:
    operations = 2 * size.multiplied * (cost.forward + cost.backward)
    step = size.multiplied * size.itemsize / rates.bytes + size.layers * PER_LAYER
    return PER_JOB + operations / (SHARE * rates.operations) + cost.steps * step


def log_job(cost: Cost, size: Size, dtype: torch.dtype, device: torch.device) -> None:
    """Log the estimated time of a job, unless it is only a few seconds."""
    if size.multiplied * (cost.forward + cost.backward) > 1e12:  # some seconds on most machines
        log.info(
            "Time: about %.0f s.", seconds(cost, size, Rates.measured(size.hidden, dtype, device))
        )


def weight_bytes(config: PretrainedConfig, dtype: torch.dtype) -> int:
    """Size in bytes of all parameters of a model of this architecture, tied ones counted once."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    parameters: int = sum(parameter.numel() for parameter in model.parameters())
    return parameters * dtype.itemsize


def read_bytes(size: Size, cost: Cost) -> int:
    """Size in bytes of the parameters that a job reads, if weights are mapped from their file.

    Of the embeddings, it reads the rows of its tokens and, with a backward pass, of the head those
    of the label words. These few rows are not counted.
    """
    unread = size.looked_up + (size.head if cost.whole and cost.backward else 0)
    return (size.parameters - unread) * size.itemsize


class Batch(NamedTuple):
    prompts: int
    tokens: int  # of each, after the shared ones
    shared: int  # tokens before them that have been run


def work_bytes(size: Size, batch: Batch, cost: Cost, recompute: bool) -> float:
    """The most memory, in bytes, that a batch takes at any time in addition to the weights.

    If ``recompute``, a backward pass recomputes the activations of each layer.
    """
    tokens = batch.prompts * batch.tokens
    layer = tokens * (6 * size.hidden + size.layer / size.hidden)
    if not (cost.whole and cost.backward):
        kept = size.depth * size.keys_values * (batch.shared * cost.copies + tokens)
    elif recompute:
        kept = size.layers * tokens * size.hidden + layer
    else:
        kept = size.layers * layer
    return size.itemsize * (layer + kept)


def batches(prompts: pl.DataFrame, whole: bool, batch_tokens: int) -> tuple[Batch, Batch]:
    """A batch of the longest prompt alone, and the largest batch; one token if there are none."""
    run = prompts.filter(pl.col("skipped").is_null())
    shared = 0 if whole else max(run["query_start"].to_list(), default=0)
    run_tokens = run["tokens"] - (0 if whole else run["query_start"])
    longest = max(run_tokens.to_list(), default=1)
    together = max(1, min(len(run), batch_tokens // longest))
    return Batch(1, longest, shared), Batch(together, longest, shared)


def query_tokens(prompts: pl.DataFrame, batch_tokens: int) -> int:
    """The most tokens of queries in a batch that, with its demonstrations, has ``batch_tokens``."""
    run = prompts.filter(pl.col("skipped").is_null())
    if run.is_empty():
        return batch_tokens
    longest, query = run.select(
        pl.col("tokens").max(), (pl.col("tokens") - pl.col("query_start")).max().alias("query")
    ).row(0)
    return max(1, int(batch_tokens) * int(query) // int(longest))


def available_bytes(device: torch.device, spread: bool = False) -> int:
    """Available memory, in bytes: of the GPU, of all GPUs together, or main memory.

    Main memory is what the system reports as available, including file caches, or less if a
    control group (a container, a cluster job) sets a limit.
    """
    if device.type == "cuda":
        gpus = range(torch.cuda.device_count()) if spread else [device]
        return sum(torch.cuda.mem_get_info(gpu)[0] for gpu in gpus)
    computer: int = psutil.virtual_memory().available
    return min([computer, *left_in_control_groups()])


class _Files(NamedTuple):
    """Where one version of Linux control groups reports memory."""

    folder: str
    limit: str
    usage: str
    caches: tuple[str, str]  # in memory.stat; reclaimed when memory is needed


_VERSIONS = {  # by the name of the controller in /proc/self/cgroup
    "": _Files("", "memory.max", "memory.current", ("active_file", "inactive_file")),
    "memory": _Files(
        "memory",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        ("total_active_file", "total_inactive_file"),
    ),
}


def left_in_control_groups(
    groups: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")
) -> Iterator[int]:
    """Bytes that this process may still allocate in each of its control groups with a limit."""
    lines = groups.read_text(encoding="utf-8").splitlines() if groups.is_file() else []
    for line in lines:
        _, controllers, group = line.split(":", 2)
        for name in controllers.split(","):
            if name in _VERSIONS:
                path = PurePosixPath(group.lstrip("/"))
                for folder in (path, *path.parents):
                    yield from _left(root / _VERSIONS[name].folder / folder, _VERSIONS[name])


def _left(group: Path, files: _Files) -> Iterator[int]:
    """The limit of one group minus its usage without file caches; nothing if it has no limit."""
    try:
        limit, usage = (
            (group / name).read_text(encoding="utf-8").strip()
            for name in (files.limit, files.usage)
        )
        rows = (group / "memory.stat").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    if limit != "max":
        statistics = dict(row.split() for row in rows)
        caches = sum(int(statistics.get(name, 0)) for name in files.caches)
        yield max(0, int(limit) - int(usage) + caches)


def check_job(
    card: Mapping[str, Any],
    size: Size,
    stored: torch.dtype,
    device: torch.device,
    compute: Mapping[str, Any],
    prompts: pl.DataFrame,
    cost: Cost,
) -> None:
    """Log needed and available memory; reject a model that can't run a single prompt.

    ``stored`` is the dtype of the weights in their files. ``compute`` is the configuration's
    section, with the stage's own values.
    """
    spread, on_cpu = compute["device"] == "spread", device.type == "cpu"
    mapped = on_cpu and stored == getattr(torch, card["dtype"])
    weights = read_bytes(size, cost) if mapped else size.parameters * size.itemsize
    available = available_bytes(device, spread)
    one, batch = batches(prompts, cost.whole or size.state, compute["batch_tokens"])
    factor, chunk = (HEAP, 0) if on_cpu else (1, gpu_chunk_bytes(max(0, available - weights)))
    alone, together = (
        round(factor * work_bytes(size, planned, cost, compute["recompute"]) + chunk)
        for planned in (one, batch)
    )
    where = "in main memory" if on_cpu else "on the GPU" + "s" * spread
    log.info(
        "Memory: %s planned, %s of weights and %s for %d prompts of up to %d tokens; %s are "
        "available %s.",
        *(gib(weights + together), gib(weights), gib(together)),
        *(batch.prompts, batch.shared + batch.tokens, gib(available), where),
    )
    if weights + alone > available:
        raise InputError(
            f"models.{card['name']}: {gib(weights)} of weights in {card['dtype']} and {gib(alone)} "
            f"for a prompt of {one.shared + one.tokens} tokens do not fit into the "
            f"{gib(available)} that are available {where}; {MORE_MEMORY}."
        )
    if weights + together > available:
        log.warning(
            "A batch of %d tokens may not fit; lower compute.batch_tokens if memory runs out.",
            batch.prompts * batch.tokens,
        )


def check_conversion(name: str, config: PretrainedConfig, dtype: str) -> None:
    """Reject a conversion of weights whose result does not fit into main memory."""
    weights = weight_bytes(config, getattr(torch, dtype))
    available = available_bytes(torch.device("cpu"))
    if weights > available:
        raise InputError(
            f"models.{name}: {gib(weights)} of weights in {dtype} do not fit into the "
            f"{gib(available)} that are available in main memory, where they are converted; choose "
            'a smaller model, "dtype: bfloat16" for it, or a machine with more memory.'
        )


def gib(size: int) -> str:
    return f"{size / 2**30:.2f} GiB"
