"""Whether a model fits into memory, told from its configuration before any weights are read.

Weights are counted exactly. What it takes to run prompts depends on the architecture and on what is
measured; the least of it is estimated, so that what is refused would have run out of memory, or
would have read its weights from the disk again for every batch. (Where keys and values are not
kept, as with the nearest demonstrations, it can take less than estimated.)
"""

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import psutil
import torch
from transformers import AutoModelForCausalLM, PretrainedConfig

from anchorflow.errors import MORE_MEMORY, InputError

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
    """The least that running a batch takes beside the weights.

    Parameters
    ----------
    tokens : int
        Of all prompts of the batch together.
    gradients : bool
        Whether every layer's activations are kept for a backward pass, as saliency needs; if not,
        keys and values are.
    recompute : bool
        Whether, for a backward pass, only the layers' inputs are kept.
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
    """Memory that can be taken: of the GPU, of all GPUs together, or of the computer.

    The computer's is what the system calls available, file caches included, or less if a control
    group (a container, a job of a cluster) sets a limit.
    """
    if device.type == "cuda":
        gpus = range(torch.cuda.device_count()) if spread else [device]
        return sum(torch.cuda.mem_get_info(gpu)[0] for gpu in gpus)
    computer: int = psutil.virtual_memory().available
    return min([computer, *left_in_control_groups()])


class _Files(NamedTuple):
    """Where one version of Linux control groups tells of memory."""

    folder: str
    limit: str
    usage: str
    caches: tuple[str, str]  # in memory.stat; given back when memory is needed


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
    """What this process may still take within each limited control group that it is in."""
    lines = groups.read_text(encoding="utf-8").splitlines() if groups.is_file() else []
    for line in lines:
        _, controllers, own = line.split(":", 2)
        for name in controllers.split(","):
            if name in _VERSIONS:
                path = PurePosixPath(own.lstrip("/"))
                for folder in (path, *path.parents):
                    yield from _left(root / _VERSIONS[name].folder / folder, _VERSIONS[name])


def _left(group: Path, files: _Files) -> Iterator[int]:
    """The limit of one group less its usage, file caches apart; nothing if it has no limit."""
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
    """Log what a job needs and what there is; refuse a model that can't run a single prompt.

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
        "Memory: %s of weights, and at least %s for the longest prompt (%d tokens) or %s for %d "
        "tokens together; %s are available %s.",
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
            "%d tokens together may not fit; lower compute.batch_tokens if memory runs out.",
            together,
        )


def check_conversion(name: str, config: PretrainedConfig, dtype: str) -> None:
    """Refuse to convert weights of which main memory can't hold the result.

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
    """A size in bytes as people read it."""
    return f"{size / 2**30:.2f} GiB"
