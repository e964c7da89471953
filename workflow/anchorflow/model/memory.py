"""Whether a model and its prompts fit into memory, counted before any weights are read.

Weights are counted from the configuration. What prompts take is counted by running the model
without any numbers: on torch's device ``meta``, where tensors have shapes alone, one layer and two
layers of it run as the job will run them, while the bytes of all tensors that live are summed. Each
further layer adds what the second one keeps; where layers differ in the shapes of their weights,
all of them run. So the count holds for every architecture, and for what its modules keep for a
backward pass.

On the CPU, weights are mapped from their file, so that those that a job does not read take none;
and the heap grows beyond what is in use, by :data:`HEAP`. Not counted are Python and its libraries
(0.5 GB), a GPU's context, and what a stage keeps for the results that it writes.
"""

import logging
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import polars as pl
import psutil
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint
from transformers import AutoModelForCausalLM, PretrainedConfig, PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from anchorflow.config.errors import MORE_MEMORY, InputError
from anchorflow.model.attention_function import (
    Attention,
    AttentionCall,
    LayerPrefix,
    adopt,
    attention_gradients,
    gpu_chunk_bytes,
    gpu_chunk_elements,
    intervene,
    plain_attention,
    row_chunks,
)
from anchorflow.model.operations import (
    CUTS_AT_ONCE,
    OF_STAGE,
    WHOLE,
    WITH_GRADIENTS,
    Size,
    by_protocol,
    cut_shares,
    in_words,
    isolated_shares,
    looked_up,
    measured_rates,
    operations,
    run_by,
)

log = logging.getLogger(__name__)

# Operations beyond which a job says how long it takes. Rates are measured for that, which takes a
# tenth of a second, on a processor a hundredth of what so many operations take.
WORTH_TELLING = 2e12
WITH_LARGEST_CHUNKS = 8 * gpu_chunk_bytes(2**62)  # free bytes of a GPU that limit no chunk
HEAP = 1.2  # of the bytes in use, between which freed ones lie; measured with glibc


def without_numbers(config: PretrainedConfig, dtype: torch.dtype) -> PreTrainedModel:
    """A model of this architecture, with our attention, on the device ``meta``."""
    with torch.device("meta"):
        model: PreTrainedModel = AutoModelForCausalLM.from_config(
            config, dtype=dtype, attn_implementation="eager"
        )
    adopt(model)
    return model.requires_grad_(False).eval()


def weight_bytes(config: PretrainedConfig, dtype: torch.dtype) -> int:
    """Size of all parameters of a model of this architecture, tied ones once."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    parameters: int = sum(parameter.numel() for parameter in model.parameters())
    return parameters * dtype.itemsize


def read_bytes(model: PreTrainedModel, gradients: bool) -> int:
    """Size of the parameters that a job reads, of weights that are mapped from their file.

    Of embeddings it reads the rows of its tokens, and of the head, with ``gradients``, those of the
    label words; these few do not count.
    """
    embeddings, head = looked_up(model), {id(model.get_output_embeddings().weight)}
    unread = embeddings | head if gradients else embeddings - head
    return sum(each.nbytes for each in model.parameters() if id(each) not in unread)


class Shape(NamedTuple):
    """A batch of prompts."""

    prompts: int
    tokens: int  # of each, after the shared ones
    shared: int = 0  # tokens before them that have been run
    copies: float = 1  # of the shared tokens' keys and values that are kept


def work_bytes(
    model: PreTrainedModel, shape: Shape, gradients: bool = False, recompute: bool = False
) -> int:
    """The most memory, in bytes, that a batch takes at any time in addition to the weights.

    Parameters
    ----------
    model : PreTrainedModel
        From :func:`without_numbers`.
    gradients : bool
        Whether there is a backward pass through all prompts, as for saliency; otherwise the keys
        and values of the shared tokens and of the batch are kept.
    recompute : bool
        Whether a backward pass recomputes the activations of each layer.
    """
    layers: int = model.config.get_text_config().num_hidden_layers
    if len({tuple(each.shape for each in layer.parameters()) for layer in _stack(model)}) > 1:
        return _counted(model, shape, layers, gradients, recompute).most
    one, two = (_counted(model, shape, layers, gradients, recompute) for layers in (1, 2))
    each = two.kept - one.kept
    return max(one.most, two.most - each) + (layers - 1) * each


class Counted(NamedTuple):
    """Bytes beside the weights."""

    most: int  # at any time
    kept: int  # after the forward pass


def _counted(
    model: PreTrainedModel, shape: Shape, layers: int, gradients: bool, recompute: bool
) -> Counted:
    """What a batch takes in the first ``layers`` layers alone."""
    input_ids = torch.zeros(shape.prompts, shape.tokens, dtype=torch.long, device="meta")
    attention = _Measured() if gradients else _Kept(shape)
    counted = _Counted([*model.parameters(), *model.buffers()])
    with (
        _shortened(model, layers, gradients, recompute),
        intervene(attention),
        nullcontext() if gradients else torch.no_grad(),
        counted,
    ):
        output = model(input_ids, position_ids=torch.zeros_like(input_ids), use_cache=False)
        logits = output.logits.float()
        kept = counted.bytes
        if gradients:
            logits.sum().backward()
    return Counted(counted.most, kept)


def _stack(model: PreTrainedModel) -> nn.ModuleList:
    """The layers of the text decoder."""
    (stack,) = (
        each
        for each in model.get_decoder().modules()
        if isinstance(each, nn.ModuleList) and isinstance(each[0], GradientCheckpointingLayer)
    )
    return stack


@contextmanager
def _shortened(
    model: PreTrainedModel, layers: int, gradients: bool, recompute: bool
) -> Iterator[None]:
    """Run the first layers alone, the head at one position, and gradients from embeddings on."""
    stack = _stack(model)
    left_out = list(stack[layers:])
    del stack[layers:]
    head, embeddings = model.get_output_embeddings(), model.get_input_embeddings()
    hooks = [head.register_forward_pre_hook(lambda _, given: (given[0][:, :1],))]
    if gradients:
        hooks.append(
            embeddings.register_forward_hook(lambda *given: given[-1].detach().requires_grad_())
        )
    for layer in stack if recompute else ():
        layer.forward = partial(checkpoint, layer.forward, use_reentrant=False)
    try:
        yield
    finally:
        for layer in stack if recompute else ():
            del layer.forward
        for hook in hooks:
            hook.remove()
        stack.extend(left_out)


class _Counted(TorchDispatchMode):
    """Sums the bytes of all tensors that live, except those that are ``known``, by their storages.

    Comparisons of tensors that have no values come out as 1. Products with the weights of several
    experts have no numbers in any dtype, of which torch knows bfloat16 alone.
    """

    def __init__(self, known: Sequence[Tensor]) -> None:
        super().__init__()
        self.most = self.bytes = 0
        self._alive: dict[int, Any] = {each.untyped_storage()._cdata: None for each in known}

    def __torch_dispatch__(
        self, function: Any, _: Any, given: Any = (), named: Mapping[str, Any] | None = None
    ) -> Any:
        if function is torch.ops.aten._local_scalar_dense.default and given[0].is_meta:
            return 1
        if function is torch.ops.aten._grouped_mm.default and given[0].is_meta:
            output = given[0].new_empty(given[0].shape[0], given[1].shape[2])
        else:
            output = function(*given, **(named or {}))
        for tensor in tree_leaves(output):
            if isinstance(tensor, Tensor):
                storage = tensor.untyped_storage()
                key, size = storage._cdata, storage.nbytes()
                if key not in self._alive:
                    self._alive[key] = weakref.ref(storage, partial(self._free, key, size))
                    self.bytes += size
                    self.most = max(self.most, self.bytes)
        return output

    def _free(self, key: int, size: int, _: Any) -> None:
        del self._alive[key]
        self.bytes -= size


def _last_chunk(call: AttentionCall) -> Tensor:
    """Attention of the last chunk of rows, in an output for all of them; [B, H, T, D]."""
    *_, (start, _) = row_chunks(call)
    if start == 0:
        return plain_attention(call)
    plain_attention(replace(call, query=call.query[:, :, start:]))
    return call.query.new_empty(*call.query.shape[:3], call.value.shape[3])


class _Measured:
    """The intervention with which attention keeps and takes what it does for saliency."""

    def attend(self, call: AttentionCall, _: Attention) -> Tensor:
        """Plain attention; [B, H, T, D]."""
        output: Tensor = _MeasuredAttention.apply(call.query, call.key, call.value, call)
        return output


class _MeasuredAttention(torch.autograd.Function):
    """As in ``measure/saliency.py``, with one chunk of rows in place of all."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, call: AttentionCall) -> Tensor:
        ctx.save_for_backward(query, key, value)
        ctx.layer, ctx.how = call.layer, (call.scaling, call.sliding_window, call.softcap)
        return _last_chunk(call)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        upstream, *saved = (each.contiguous() for each in (*gradients, *ctx.saved_tensors))
        call = AttentionCall(ctx.layer, *saved, *ctx.how)
        own = tuple(torch.empty_like(each) for each in saved)
        *_, last = row_chunks(call)
        attention_gradients(call, upstream, *last)
        return *own, None


class _Kept:
    """The intervention that keeps keys and values, of the shared tokens and of the batch."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._kept: list[Tensor] = []

    def attend(self, call: AttentionCall, _: Attention) -> Tensor:
        """Attention to the shared tokens too; [B, H, T, D]."""
        heads, size = call.key.shape[1], call.key.shape[3]
        shared, copies = self._shape.shared, self._shape.copies
        self._kept += [call.key.contiguous(), call.value.contiguous()]
        if shared:
            key = call.key.new_empty(1, heads, shared, size)
            value = call.value.new_empty(1, heads, shared, call.value.shape[3])
            more = key.new_empty(round((copies - 1) * (key.numel() + value.numel())))
            self._kept += [key, value, more]
            call = replace(call, prefix=LayerPrefix(key, value))
        return _last_chunk(call)


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
    prompts: pl.DataFrame,
    stage: str,
    spec: Mapping[str, Any],
    opened: bool = False,
    make_room: Callable[[], bool] = lambda: False,
) -> None:
    """Log needed and available memory and time; reject a model that can't run a single prompt.

    Parameters
    ----------
    name, dtype : str
        Of the model, as in the configuration.
    compute, spec : mapping
        How the stage computes, and what, as in the configuration.
    prompts : DataFrame
        ``PROMPTS`` that will be run.
    stage : str
        One of :data:`~anchorflow.model.operations.OF_STAGE`.
    opened : bool
        Whether this process has opened the weights already, on a GPU.
    make_room : callable
        Gives up what this process keeps of earlier jobs, if a batch does not fit beside it with
        chunks of attention as large as without it; returns whether there was anything.

    Raises
    ------
    InputError
        If the weights and the longest prompt need more memory than is available.
    """
    spread, on_cpu = compute["device"] == "spread", device.type == "cpu"
    depth, number_format = config.get_text_config().num_hidden_layers, getattr(torch, dtype)
    converted = config.dtype != number_format  # when the model is opened
    model, run = without_numbers(config, number_format), run_by(stage, spec, prompts)
    weights = sum(each.nbytes for each in model.parameters())
    if on_cpu and not converted:
        weights = read_bytes(model, stage in WITH_GRADIENTS)
    one, batch = shapes(stage, spec, run, depth, compute["batch_tokens"])
    there = weights if opened and not on_cpu else 0
    available = available_bytes(device, spread) + there
    free = None if on_cpu else available
    work: Callable[[Shape], int] = partial(planned_bytes, model, stage, free, compute["recompute"])
    try:
        together = work(batch)
    except RuntimeError as error:  # of an operation that needs numbers
        reason = str(error).partition("\n")[0]
        log.info("Memory: weights alone are planned, since %s needs numbers: %s", name, reason)
        work, together = _unknown, 0
    if weights + together + (0 if on_cpu else WITH_LARGEST_CHUNKS) > available and make_room():
        available = available_bytes(device, spread) + there
        if work is not _unknown:
            free = None if on_cpu else available
            work = partial(planned_bytes, model, stage, free, compute["recompute"])
            together = work(batch)
    where = "in main memory" if on_cpu else "on the GPU" + "s" * spread
    log.info(
        "Memory: %s planned, %s of weights and %s for %d prompts of up to %d tokens; %s are "
        "available %s.",
        *(gib(weights + together), gib(weights), gib(together)),
        *(batch.prompts, batch.shared + batch.tokens, gib(available), where),
    )
    if weights + together > available:
        alone = work(one)
        if weights + alone > available:
            raise InputError(
                f"models.{name}: {gib(weights)} of weights in {dtype} and {gib(alone)} for a "
                f"prompt of {one.shared + one.tokens} tokens do not fit into the "
                f"{gib(available)} that are available {where}; {MORE_MEMORY}."
            )
        log.warning(
            "A batch of %d tokens may not fit; lower compute.batch_tokens if memory runs out.",
            batch.prompts * batch.tokens,
        )
    size, protocols = Size.of(model), by_protocol(run)
    passes = OF_STAGE[stage](protocols, spec, depth, compute["batch_tokens"])
    if operations(passes, size) > WORTH_TELLING:
        rates = measured_rates(size, number_format, device)
        log.info("Time: %s.", in_words(protocols, passes, size, rates))


def _unknown(_: Shape) -> int:
    """What a batch takes where that can't be planned."""
    return 0


def planned_bytes(
    model: PreTrainedModel, stage: str, free: int | None, recompute: bool, shape: Shape
) -> int:
    """The most memory that a stage's batch takes; see :func:`work_bytes`.

    On a GPU with so many ``free`` bytes, chunks of attention are larger than on a CPU, if there are
    as many scores.
    """
    work = work_bytes(model, shape, stage in WITH_GRADIENTS, recompute)
    if free is None:
        return round(HEAP * work)
    heads: int = model.config.get_text_config().num_attention_heads
    scores = shape.prompts * heads * shape.tokens * (shape.shared + shape.tokens)
    share = min(1.0, scores / gpu_chunk_elements(free))
    return work + round(share * gpu_chunk_bytes(free))


def shapes(
    stage: str, spec: Mapping[str, Any], run: pl.DataFrame, depth: int, batch_tokens: int
) -> tuple[Shape, Shape]:
    """The longest prompt by itself, and the largest batch; of one token if there are none.

    Shared tokens are those before the query, unless the stage runs whole prompts. Isolation keeps
    them once more for every setting, as far as it runs the layers again, and knocking out for
    some settings at a time. Saliency between tokens is of one prompt at a time.
    """
    own = run["tokens"] if stage in WHOLE else run["tokens"] - run["query_start"]
    shared = 0 if stage in WHOLE else max(run["query_start"].to_list(), default=0)
    copies = 1.0
    if stage == "isolation":
        copies += sum(isolated_shares(spec, depth))
    elif stage == "knockout":
        copies += sum(sorted(cut_shares(spec, depth)[0])[-CUTS_AT_ONCE:])
    elif stage == "cutoff":
        copies += CUTS_AT_ONCE
    elif stage == "transplant":
        copies += len(spec["donors"]) * spec["draws"] + CUTS_AT_ONCE
    one = Shape(1, max(own.to_list(), default=1), shared, copies)
    if stage == "token_saliency":
        return one, one
    return one, one._replace(prompts=max(1, min(len(run), batch_tokens // one.tokens)))


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
