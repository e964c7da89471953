"""Quantized checkpoints, and what their weights stand for, by the rule of each format.

Tensors are read one weight at a time and written as a plain checkpoint of the same names, so that a
format needs neither its library nor more memory than one file. What is done to activations when a
format runs natively is not part of the weights.
"""

import contextlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor
from transformers import AutoModelForCausalLM, PretrainedConfig
from transformers.pytorch_utils import Conv1D
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME

from anchorflow.config.errors import InputError, is_out_of_memory
from anchorflow.model.opening import damage_reported
from anchorflow.prepare.checkpoint import ENTRIES, Stored, is_derived, weight_files

_FP8, _FLOATS = (
    (torch.float8_e4m3fn, torch.float8_e5m2),
    (torch.float32, torch.float16, torch.bfloat16),
)
Parts = Mapping[str, Tensor]
Settings = Mapping[str, Any]

_UNQUANTIZED = ("F64", "F32", "F16", "BF16")
_REMEDY = "name a checkpoint of the model that is not quantized, or a GGUF file of it"
_FILE = 2**31  # bytes of dequantized weights that are written together


class Format(NamedTuple):
    """Which tensors make a weight, by the ends of their names, and what they stand for."""

    marks: tuple[str, ...]  # of the integers or short floats themselves
    result: str  # takes the place of the mark
    needed: tuple[str, ...]
    further: tuple[str, ...]
    unpack: Callable[[Parts, Settings], Tensor]  # raises ValueError
    refused: Callable[[Settings], str | None]  # why settings are not followed
    dropped: tuple[str, ...] = ()  # scales of activations


class Quantization(NamedTuple):
    """How a configuration says that weights are quantized."""

    method: str
    settings: Settings


def quantization_of(name: str, config: PretrainedConfig) -> Quantization | None:
    """How a configuration says that its weights are quantized, or None if it doesn't."""
    for part in (config, config.get_text_config()):
        for entry in ENTRIES:
            described = getattr(part, entry, None)
            if described:
                quantization = _described(name, entry, described)
                _check_orientation(name, config)
                return quantization
    return None


def _check_orientation(name: str, config: PretrainedConfig) -> None:
    """Refuse layers whose weights are [in, out], which tools transpose or not."""
    with torch.device("meta"):
        skeleton = AutoModelForCausalLM.from_config(config)
    if any(isinstance(module, Conv1D) for module in skeleton.modules()):
        raise InputError(
            f"models.{name}: its weights are quantized, and {type(skeleton).__name__} has layers "
            f"(Conv1D) whose quantized weights may be transposed or not; {_REMEDY}."
        )


def _described(name: str, entry: str, described: Any) -> Quantization:
    if not isinstance(described, Mapping):  # a class of transformers
        described = described.to_dict() if hasattr(described, "to_dict") else {}
    method = described.get("quant_method")
    if entry != "quantization_config" or not isinstance(method, str) or method not in FORMATS:
        form = f"in the format {method}" if method else "in a format without a name (quant_method)"
        raise InputError(
            f"models.{name}: {entry} in its config.json says that its weights are quantized {form},"
            f" and only {', '.join(FORMATS)} are dequantized here; {_REMEDY}, or delete {entry} if "
            "the weights are not quantized."
        )
    if reason := FORMATS[method].refused(described):
        raise InputError(
            f"models.{name}: {entry} in its config.json says {method} with {reason}, which is not "
            f"dequantized here; {_REMEDY}."
        )
    return Quantization(method, described)


def check_unquantized(name: str, tensors: Mapping[str, Stored]) -> None:
    """Reject weights that are quantized although no configuration says so."""
    for tensor, (dtype, shape) in tensors.items():
        if dtype not in _UNQUANTIZED and not is_derived(tensor, shape):
            raise InputError(
                f"models.{name}: {tensor} is stored as {dtype}, so it is quantized, and nothing in "
                f"its config.json says how to dequantize it; {_REMEDY}."
            )


def dequantize(
    name: str, quantization: Quantization, directory: Path, dtype: torch.dtype, target: Path
) -> None:
    """Write a plain checkpoint of a quantized one, with dequantized weights in ``dtype``.

    All other tensors stay as they are stored.
    """
    with contextlib.ExitStack() as opened:
        where: dict[str, Any] = {}
        with damage_reported(name, directory):
            for path in (directory / file for file in weight_files(directory)):
                file = opened.enter_context(safe_open(path, "pt"))
                where |= dict.fromkeys(file.keys(), file)
            slices = {tensor: file.get_slice(tensor) for tensor, file in where.items()}
            stored = {
                tensor: Stored(part.get_dtype(), tuple(part.get_shape()))
                for tensor, part in slices.items()
            }
        weights = _grouped(name, quantization, stored)
        used = {tensor for parts in weights.values() for tensor in parts.values()}
        plain = {tensor: part for tensor, part in stored.items() if tensor not in used}
        form = FORMATS[quantization.method]
        for weight in weights:  # of activations, which stay as they are
            for end in form.dropped:
                plain.pop(weight.removesuffix(form.result) + end, None)
        if both := sorted(plain.keys() & weights.keys()):
            raise InputError(
                f"models.{name}: {directory} has {both[0]} twice, plain and quantized; replace it "
                "with a complete copy."
            )
        check_unquantized(name, plain)

        def read(tensor: str) -> Tensor:
            with damage_reported(name, directory):
                values: Tensor = where[tensor].get_tensor(tensor)
                return values

        def tensors() -> Iterator[tuple[str, Tensor]]:
            for tensor in plain:
                yield tensor, read(tensor)
            for weight, parts in weights.items():
                stored_parts = {end: read(tensor) for end, tensor in parts.items()}
                try:
                    whole = form.unpack(stored_parts, quantization.settings)
                except (ValueError, RuntimeError, IndexError, KeyError) as error:
                    if is_out_of_memory(error):
                        raise
                    shapes = ", ".join(f"{t} {list(stored[t].shape)}" for t in parts.values())
                    raise InputError(
                        f"models.{name}: {shapes} are no weight in the format "
                        f"{quantization.method} ({str(error).splitlines()[0]}); replace the "
                        f"weights with a complete copy, or {_REMEDY}."
                    ) from None
                yield weight, whole.to(dtype)

        _write(tensors(), target)


def _grouped(
    name: str, quantization: Quantization, stored: Mapping[str, Stored]
) -> dict[str, dict[str, str]]:
    """The tensors of every quantized weight by the ends of their names."""
    method, form = quantization.method, FORMATS[quantization.method]
    found: dict[str, dict[str, str]] = {}
    for tensor, (dtype, shape) in stored.items():
        mark = next((end for end in form.marks if tensor.endswith(end)), None)
        if mark is None or dtype in _UNQUANTIZED or is_derived(tensor, shape):
            continue
        stem = tensor.removesuffix(mark)
        ends = [end for end in (*form.needed, *form.further) if stem + end in stored]
        parts = {mark: tensor, **{end: stem + end for end in ends}}
        found[stem + form.result] = parts
        if lacking := [end for end in form.needed if end not in parts]:
            raise InputError(
                f"models.{name}: {tensor} is stored as {dtype} without {stem + lacking[0]}; "
                f"replace the weights with a complete copy, or {_REMEDY}."
            )
    if not found:
        raise InputError(
            f"models.{name}: quantization_config in its config.json says {method}, but none of its "
            "tensors is; delete quantization_config if the weights are not quantized, or replace "
            "them with a complete copy."
        )
    return found


def _write(tensors: Iterator[tuple[str, Tensor]], target: Path) -> None:
    """Write a checkpoint in one file, or in several with an index."""
    target.mkdir(exist_ok=True)
    index: dict[str, str] = {}
    waiting: dict[str, Tensor] = {}
    written = held = 0

    def write(file: str) -> None:
        save_file(waiting, target / file, metadata={"format": "pt"})
        index.update(dict.fromkeys(waiting, file))
        waiting.clear()

    for tensor, values in tensors:
        waiting[tensor] = values.contiguous()
        held += values.nbytes
        if held >= _FILE:
            written, held = written + 1, 0
            write(f"model-{written:05}.safetensors")
    if not index:
        write(SAFE_WEIGHTS_NAME)
        return
    if waiting:
        write(f"model-{written + 1:05}.safetensors")
    text = json.dumps({"metadata": {}, "weight_map": index}, indent=2)
    (target / SAFE_WEIGHTS_INDEX_NAME).write_text(text, encoding="utf-8")


def _unpacked(words: Tensor, bits: int, axis: int) -> Tensor:
    """Unsigned integers of some bits along an axis, of which 32-bit words hold the first lowest."""
    _check_kinds((words, torch.int32))
    shifts = torch.arange(0, 32, bits, dtype=torch.int32)
    values: Tensor = (words.movedim(axis, -1)[..., None] >> shifts) & (2**bits - 1)
    return values.flatten(-2).movedim(-1, axis)


def _expanded(scale: Tensor, shape: Sequence[int], block: Sequence[int]) -> Tensor:
    """A scale per block of rows and columns for every entry, [rows, columns].

    The last blocks may be smaller. Raises ValueError if there are not as many scales as blocks.
    """
    rows, columns = shape
    counts = (math.ceil(rows / block[0]), math.ceil(columns / block[1]))
    if scale.numel() != math.prod(counts) or (scale.ndim == 2 and tuple(scale.shape) != counts):
        raise ValueError("there are not as many scales as blocks")
    each = scale.reshape(counts).repeat_interleave(block[0], 0).repeat_interleave(block[1], 1)
    whole: Tensor = each[:rows, :columns]
    return whole


def _check_kinds(*tensors: tuple[Any, ...]) -> None:
    """Raise ValueError unless each tensor has one of the dtypes that follow it."""
    for tensor, *kinds in tensors:
        if tensor.dtype not in kinds:
            raise ValueError(f"{tensor.dtype} is not one of {', '.join(map(str, kinds))}")


# FP8 with a scale per block, of transformers and DeepSeek


def _of_fp8(parts: Parts, settings: Settings) -> Tensor:
    weight, block = parts["weight"], settings.get("weight_block_size", (128, 128))
    scale = parts["weight_scale_inv"]  # by which, in spite of its name, weights are multiplied
    _check_kinds((weight, *_FP8), (scale, *_FLOATS))
    if block is None and scale.numel() > 1:
        raise ValueError("weight_block_size asks for a single scale")
    return weight.float() * _expanded(scale.float(), tuple(weight.shape), block or weight.shape)


def _fp8_refused(settings: Settings) -> str | None:
    block = settings.get("weight_block_size", (128, 128))
    if block is None or _is_block(block):
        return None
    return f"weight_block_size {block}, neither two positive whole numbers nor null"


def _is_block(value: Any) -> bool:
    match value:
        case [int(rows), int(columns)]:
            return rows > 0 and columns > 0
    return False


# GPTQ (arXiv:2210.17323): integers of a column in one word, and a scale and zero per group of
# inputs. The first version of its files holds zeros less 1.


def _of_gptq(parts: Parts, settings: Settings) -> Tensor:
    bits, scales = settings["bits"], parts["scales"]
    if settings.get("desc_act") and "g_idx" not in parts:
        raise ValueError("there is no g_idx, which desc_act needs")
    codes, zeros = _unpacked(parts["qweight"], bits, 0), _unpacked(parts["qzeros"], bits, 1)
    zeros = zeros + int(_forms(settings, "checkpoint_format") != ["gptq_v2"])
    groups = _groups(parts.get("g_idx"), settings, len(codes), scales, zeros)
    whole: Tensor = scales.float()[groups] * (codes - zeros[groups])
    return whole.T


def _groups(
    given: Tensor | None, settings: Settings, inputs: int, scales: Tensor, zeros: Tensor
) -> Tensor:
    """The group of every input; raises ValueError unless scales and zeros are of as many groups."""
    _check_kinds((scales, *_FLOATS))
    size = settings["group_size"] if settings["group_size"] > 0 else inputs
    groups = torch.arange(inputs) // size if given is None else given.long()
    if scales.shape != zeros.shape or len(scales) != math.ceil(inputs / size):
        raise ValueError("there are not as many scales and zeros as groups")
    if len(groups) != inputs or not 0 <= int(groups.min()) <= int(groups.max()) < len(scales):
        raise ValueError("g_idx names a group that there is not")
    return groups


def _gptq_refused(settings: Settings) -> str | None:
    if settings.get("bits") not in (2, 4, 8):
        return f"bits {settings.get('bits')}"
    if not isinstance(settings.get("group_size"), int):
        return f"group_size {settings.get('group_size')}"
    if settings.get("dynamic"):
        return "dynamic, settings that differ by layer"
    forms = _forms(settings, "checkpoint_format")
    if len(forms) > 1 or not {*forms} <= {"gptq", "gptq_v2"}:
        return f"the format {' and '.join(forms)}"
    return _unknown(settings, "checkpoint_format", "desc_act")


# Keys that are read here, and keys that say how weights were quantized, by what, in which layers,
# or which kernel runs them. Any other key that is set may change what the tensors mean.
_KNOWN = (
    *("quant_method", "bits", "group_size", "format", "sym", "damp_percent", "damp_auto_increment"),
    *("static_groups", "true_sequential", "act_group_aware", "lm_head", "meta", "quantizer"),
    *("backend", "use_exllama", "exllama_config", "disable_exllama", "use_cuda_fp16"),
    *("max_input_length", "model_seqlen", "batch_size", "pad_token_id", "cache_block_outputs"),
    *("tokenizer", "dataset", "block_name_to_quantize", "module_name_preceding_first_block"),
    *("modules_in_block_to_quantize", "modules_to_not_convert", "model_name_or_path"),
    *("model_file_base_name", "mse", "offload_to_disk", "offload_to_disk_path", "pack_impl"),
)


def _forms(settings: Settings, legacy: str) -> list[str]:
    """The names of a layout in files, under today's key and an older one."""
    given = (settings.get(key) for key in ("format", legacy))
    return sorted({str(form).lower() for form in given if form is not None})


def _unknown(settings: Settings, *further: str) -> str | None:
    """The first key that is set and neither known for GPTQ and AWQ, nor one of ``further``."""
    if (settings.get("pack_dtype") or "int32") not in ("int32", "torch.int32"):
        return f"pack_dtype {settings['pack_dtype']}"
    known = (*_KNOWN, *further, "pack_dtype")
    others = (key for key, value in settings.items() if value and key not in known)
    return next((f"{key} {settings[key]}" for key in others), None)


# AWQ (arXiv:2306.00978), as AutoAWQ writes it for matrix products (gemm): integers of a row in one
# word, in this order.
_AWQ_ORDER = [0, 4, 1, 5, 2, 6, 3, 7]  # where in its word the next entry is


def _of_awq(parts: Parts, settings: Settings) -> Tensor:
    def ordered(words: Tensor) -> Tensor:
        eights: Tensor = _unpacked(words, 4, 1).unflatten(1, (-1, 8))
        return eights[..., _AWQ_ORDER].flatten(1)

    codes, zeros, scales = ordered(parts["qweight"]), ordered(parts["qzeros"]), parts["scales"]
    groups = _groups(None, settings, len(codes), scales, zeros)
    whole: Tensor = scales.float()[groups] * (codes - zeros[groups])
    return whole.T


def _awq_refused(settings: Settings) -> str | None:
    for key, wanted in (("bits", 4), ("zero_point", True)):
        if settings.get(key, wanted) != wanted:
            return f"{key} {settings[key]}"
    for legacy in ("version", "checkpoint_format"):
        if other := [form for form in _forms(settings, legacy) if form != "gemm"]:
            return f"the format {other[0]}"
    if str(settings.get("backend")).lower() == "llm-awq":  # which also is a format
        return "backend llm-awq"
    if not isinstance(settings.get("group_size"), int):
        return f"group_size {settings.get('group_size')}"
    fused = ("do_fuse", "modules_to_fuse", "fuse_max_seq_len")
    return _unknown(settings, "version", "checkpoint_format", "zero_point", *fused)


# bitsandbytes (arXiv:2208.07339, arXiv:2305.14314): 8 bits with a scale per row, or 4 bits that are
# indices of a table, with a scale per block, which may be quantized itself.
_STATES = tuple(f"weight.quant_state.bitsandbytes__{kind}" for kind in ("nf4", "fp4"))


def _of_bitsandbytes(parts: Parts, settings: Settings) -> Tensor:
    weight, state = parts["weight"], next((parts[key] for key in _STATES if key in parts), None)
    if state is None:
        scale, form = parts.get("SCB"), parts.get("weight_format")
        if weight.dtype != torch.int8 or scale is None or scale.shape != (len(weight),):
            raise ValueError("there is no scale per row (SCB), and no quant_state of 4 bits")
        if form is not None and int(form) != 0:
            raise ValueError(f"weight_format {int(form)} is not by rows")
        return weight * scale.float()[:, None] * (1 / 127)
    _check_kinds((weight, torch.uint8), (state, torch.uint8))
    quant_state = json.loads(bytes(state.tolist()))
    codes = torch.stack((weight.flatten() >> 4, weight.flatten() & 15), 1).flatten().long()
    scale = parts["weight.absmax"]
    if "weight.nested_absmax" in parts:
        outer = parts["weight.nested_absmax"].repeat_interleave(quant_state["nested_blocksize"])
        scale = parts["weight.nested_quant_map"][scale.long()] * outer[: len(scale)]
        scale = scale + quant_state["nested_offset"]
    shape, block = quant_state["shape"], quant_state["blocksize"]
    entries = math.prod(shape)
    if len(codes) != entries + entries % 2 or len(scale) != math.ceil(entries / block):
        raise ValueError(f"its quant_state says shape {shape}, blocks {block}")
    whole = parts["weight.quant_map"][codes] * scale.repeat_interleave(block)[: len(codes)]
    return whole[:entries].reshape(shape).to(getattr(torch, quant_state["dtype"]))


# compressed-tensors, of vLLM: short integers or floats with scales per tensor, row, group or block,
# and integers of few bits in words.
_SPARSE = "sparsity_config"


def _of_compressed(parts: Parts, settings: Settings) -> Tensor:
    scale = parts["weight_scale"]
    (weights,) = _weights_args(settings)
    if not weights["symmetric"] and "weight_zero_point" not in parts:
        raise ValueError("there is no weight_zero_point, which symmetric: false needs")
    if weights["type"] == "float" and "weight_packed" in parts:
        return _of_packed_floats(parts, weights["group_size"])
    zeros = parts.get("weight_zero_point")
    if "weight_packed" in parts:
        if "weight_shape" not in parts:
            raise ValueError("there is no weight_shape")
        rows, columns = (int(length) for length in parts["weight_shape"])
        bits = weights["num_bits"]
        codes = _unpacked(parts["weight_packed"], bits, 1)[:, :columns] - 2 ** (bits - 1)
        if codes.shape != (rows, columns):
            raise ValueError(f"weight_shape says {[rows, columns]}")
        if zeros is not None and zeros.dtype == torch.int32:
            zeros = _unpacked(zeros, bits, 0)[:rows] - 2 ** (bits - 1)
    else:
        codes = parts["weight"]
        _check_kinds((codes, torch.int8, *_FP8))
    _check_kinds((scale, *_FLOATS))
    shape = rows, columns = codes.shape[0], codes.shape[1]
    block = {
        "tensor": (rows, columns),
        "channel": (1, columns),
        "group": (1, weights["group_size"]),
        "block": weights["block_structure"],
    }[weights["strategy"]]
    entries = codes.to(scale.dtype)  # in which the library also computes
    if zeros is not None:
        entries = entries - _expanded(zeros.to(scale.dtype), shape, block)
    whole: Tensor = entries * _expanded(scale, shape, block)
    return whole


def _of_packed_floats(parts: Parts, size: int) -> Tensor:
    """NVFP4, with short floats for a group and a float to divide them all by, or MXFP4."""
    scale, entries = parts["weight_scale"], _fp4(parts["weight_packed"])
    if "weight_global_scale" in parts:
        _check_kinds((scale, *_FP8))
        scale = scale.float() / parts["weight_global_scale"]
    else:
        _check_kinds((scale, torch.uint8))
        scale = torch.ldexp(torch.ones(scale.shape), scale.int() - 127)
    whole = entries * _expanded(scale, entries.shape, (1, size))
    return whole.bfloat16()  # as the library does


def _weights_args(settings: Settings) -> list[dict[str, Any]]:
    """How weights are quantized: one entry, if all groups of layers say the same."""
    found: list[dict[str, Any]] = []
    for group in (settings.get("config_groups") or {}).values():
        kept = ("num_bits", "type", "strategy", "group_size", "block_structure")
        given = group.get("weights") or {}
        weights = {key: given.get(key) for key in kept}
        weights["symmetric"] = given.get("symmetric") is not False
        if weights not in found:
            found.append(weights)
    return found


def _compressed_refused(settings: Settings) -> str | None:
    groups = settings.get("config_groups") or {}
    if not _maps(groups) or not all(
        _maps(group) and _maps(group.get("weights") or {}) for group in groups.values()
    ):
        return f"config_groups {json.dumps(groups, default=str)}"
    formats = [group.get("format") or settings.get("format") for group in groups.values()]
    for form in formats:
        if form not in _COMPRESSED:
            return f"format {form}"
    if len(args := _weights_args(settings)) != 1:
        return f"{len(args)} kinds of weights"
    if "pack-quantized" in formats and args[0]["num_bits"] not in (2, 4, 8):
        return f"num_bits {args[0]['num_bits']}"
    match args[0]:
        case {"strategy": "tensor" | "channel"}:
            pass
        case {"strategy": "group" | "tensor_group", "group_size": size}:
            if not isinstance(size, int) or size < 1:
                return f"group_size {size}"
        case {"strategy": "block", "block_structure": block}:
            if not _is_block(block):
                return f"block_structure {block}"
        case {"strategy": other}:
            return f"strategy {other}"
    sparse = settings.get(_SPARSE) or {"format": "dense"}
    if not _maps(sparse) or sparse.get("format", "dense") != "dense":
        return f"{_SPARSE} {sparse.get('format') if _maps(sparse) else sparse}"
    return "transform_config" if settings.get("transform_config") else None


def _maps(value: Any) -> bool:
    return isinstance(value, Mapping)


_COMPRESSED = (
    *("pack-quantized", "int-quantized", "float-quantized", "naive-quantized"),
    *("nvfp4-pack-quantized", "mxfp4-pack-quantized"),
)

# MXFP4 (arXiv:2310.10537), as gpt-oss has it: floats of 4 bits, two in a byte, and a power
# of 2 per block of 32. Experts are transposed.
_FP4 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


def _fp4(pairs: Tensor) -> Tensor:
    """What bytes with two floats of 4 bits along the last axis hold, the lower one first."""
    _check_kinds((pairs, torch.uint8))
    table = torch.tensor([*_FP4, *(-value for value in _FP4)])
    return table[torch.stack((pairs & 15, pairs >> 4), -1).flatten(-2).long()]


def _of_mxfp4(parts: Parts, settings: Settings) -> Tensor:
    blocks, scales = parts["_blocks"], parts["_scales"]
    _check_kinds((scales, torch.uint8))
    if blocks.shape[:-1] != scales.shape:
        raise ValueError("there are not as many scales as blocks")
    return torch.ldexp(_fp4(blocks), scales[..., None].int() - 127).flatten(-2).transpose(-1, -2)


def _nothing_refused(_: Settings) -> None:
    return None


_OF_4_BITS = (
    *("weight.absmax", "weight.quant_map", "weight.nested_absmax", "weight.nested_quant_map"),
    *_STATES,
)
FORMATS = {
    "fp8": Format(
        *(("weight",), "weight", ("weight_scale_inv",), (), _of_fp8, _fp8_refused),
        ("activation_scale",),
    ),
    "mxfp4": Format(("_blocks",), "", ("_scales",), (), _of_mxfp4, _nothing_refused),
    "gptq": Format(
        *(("qweight",), "weight", ("qzeros", "scales"), ("g_idx",), _of_gptq, _gptq_refused)
    ),
    "awq": Format(("qweight",), "weight", ("qzeros", "scales"), (), _of_awq, _awq_refused),
    "bitsandbytes": Format(
        *(("weight",), "weight", (), ("SCB", "weight_format", *_OF_4_BITS)),
        *(_of_bitsandbytes, _nothing_refused),
    ),
    "compressed-tensors": Format(
        *(("weight_packed", "weight"), "weight", ("weight_scale",)),
        ("weight_shape", "weight_zero_point", "weight_global_scale"),
        *(_of_compressed, _compressed_refused),
        ("input_scale", "input_zero_point", "input_global_scale"),
    ),
}
