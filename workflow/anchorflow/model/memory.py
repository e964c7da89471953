"""Whether a model fits into memory, estimated from its configuration before reading any weights.

Weights are counted exactly. The memory for prompts depends on the architecture and on what is
measured. It is estimated from below, so that a rejected job would have run out of memory, or would
have read its weights from disk again for every batch. (If keys and values are not kept, as with
the nearest demonstrations, a job can take less than estimated.)
"""

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import psutil
import torch
from transformers import AutoModelForCausalLM, PretrainedConfig

from anchorflow.config.errors import MORE_MEMORY, InputError

log = logging.getLogger(__name__)


def weight_bytes(config: PretrainedConfig, dtype: torch.dtype) -> int:
    """Size of all parameters of a model of this architecture, tied ones once."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    parameters: int = sum(parameter.numel() for parameter in model.parameters())
    return parameters * dtype.itemsize


def work_bytes(
    config: PretrainedConfig,
    dtype: torch.dtype,
    tokens: int,
    gradients: bool = False,
    recompute: bool = False,
) -> int:
    """Estimate from below of the memory, in bytes, that a batch takes in addition to the weights.

    Parameters
    ----------
    tokens : int
        Total of all prompts in the batch.
    gradients : bool
        Whether every layer's activations are kept for a backward pass, as for saliency; otherwise,
        keys and values are.
    recompute : bool
        Whether only the layers' inputs are kept for a backward pass.
    """
    text = config.get_text_config()
    hidden, heads = text.hidden_size, text.num_attention_heads
    size = getattr(text, "head_dim", None) or hidden // heads
    keys_and_values = 2 * (getattr(text, "num_key_value_heads", None) or heads) * size
    attention = heads * size + keys_and_values
    names = ("intermediate_size", "ffn_dim", "n_inner")
    inner = next((width for name in names if (width := getattr(text, name, None))), 4 * hidden)
    one_layer = 2 * (hidden + inner + attention)
    kept = keys_and_values
    if gradients:
        kept = hidden if recompute else 2 * (hidden + inner) + attention
    per_token: int = one_layer + text.num_hidden_layers * kept
    return tokens * per_token * dtype.itemsize


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
        _, controllers, own = line.split(":", 2)
        for name in controllers.split(","):
            if name in _VERSIONS:
                path = PurePosixPath(own.lstrip("/"))
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
    name: str,
    config: PretrainedConfig,
    dtype: str,
    device: torch.device,
    compute: Mapping[str, Any],
    longest: int,
    gradients: bool,
) -> None:
    """Log needed and available memory; reject a model that can't run a single prompt.

    Parameters
    ----------
    name, dtype : str
        Of the model, as in the configuration.
    compute : mapping
        As in the configuration.
    longest : int
        Tokens of the longest prompt.
    gradients : bool
        As for :func:`work_bytes`.

    Raises
    ------
    InputError
        If the weights and the longest prompt need more memory than is available.
    """
    spread, number_format = compute["device"] == "spread", getattr(torch, dtype)
    available = available_bytes(device, spread)
    weights = weight_bytes(config, number_format)
    together = max(longest, compute["batch_tokens"])
    prompt, batch = (
        work_bytes(config, number_format, tokens, gradients, compute["recompute"])
        for tokens in (longest, together)
    )
    where = "in main memory" if device.type == "cpu" else "on the GPU" + "s" * spread
    log.info(
        "Memory: %s of weights, and at least %s for the longest prompt (%d tokens) or %s for a "
        "batch of %d tokens; %s are available %s.",
        *(gib(weights), gib(prompt), longest, gib(batch), together, gib(available), where),
    )
    if weights + prompt > available:
        raise InputError(
            f"models.{name}: {gib(weights)} of weights in {dtype} and at least {gib(prompt)} for a "
            f"prompt of {longest} tokens do not fit into the {gib(available)} that are available "
            f"{where}; {MORE_MEMORY}."
        )
    if weights + batch > available:
        log.warning(
            "A batch of %d tokens may not fit; lower compute.batch_tokens if memory runs out.",
            together,
        )


def check_conversion(name: str, config: PretrainedConfig, dtype: str) -> None:
    """Reject a conversion of weights whose result does not fit into main memory.

    Raises
    ------
    InputError
        If they need more memory than is available.
    """
    weights = weight_bytes(config, getattr(torch, dtype))
    available = available_bytes(torch.device("cpu"))
    if weights > available:
        raise InputError(
            f"models.{name}: {gib(weights)} of weights in {dtype} do not fit into the "
            f"{gib(available)} that are available in main memory, where they are converted; choose "
            'a smaller model, "dtype: bfloat16" for it, or a machine with more memory.'
        )


def gib(size: int) -> str:
    """A size in bytes as text, in GiB."""
    return f"{size / 2**30:.2f} GiB"
