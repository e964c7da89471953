"""Whether a model and its prompts fit into memory, counted before any weights are read.

In addition to the weights, a batch takes six hidden states per token and the activations of the
largest layer: about the number of its weights divided by the size of the hidden state. What a stage
keeps is added: keys and values of all layers, once more for every copy of the demonstrations; or,
for a backward pass, the activations of every layer, or only its input if they are recomputed.

On the CPU, weights are mapped from their file, so those that a job does not read take no memory,
and the heap exceeds what is in use by the factor :data:`HEAP`. Not counted are Python and its
libraries (0.5 GB), a GPU's context, and the results that a stage keeps until it writes them.
"""

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import polars as pl
import psutil
import torch
from transformers import AutoModelForCausalLM, PretrainedConfig

from anchorflow.config.errors import MORE_MEMORY, InputError
from anchorflow.model.attention_function import gpu_chunk_bytes
from anchorflow.model.size import Cost, Size

log = logging.getLogger(__name__)

HEAP = 1.2  # times the bytes in use, since freed ones lie between them; measured with glibc


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
        kept = size.layers * size.keys_values * (batch.shared * cost.copies + tokens)
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
    one, batch = batches(prompts, cost.whole, compute["batch_tokens"])
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
