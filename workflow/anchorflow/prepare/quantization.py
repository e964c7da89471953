"""Quantized checkpoints: FP8 with a scale per block is dequantized, all else is refused.

The decision uses only the configuration and the tensors' names, dtypes and shapes, so that a
checkpoint is refused before any weights are read.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from transformers import PretrainedConfig

from anchorflow.config.errors import InputError
from anchorflow.prepare.checkpoint import Stored, is_derived

# Entries of a configuration that describe how weights are quantized: by transformers, by older
# versions of compressed-tensors, and by MLX.
ENTRIES = ("quantization_config", "compression_config", "quantization")

DEQUANTIZED = "fp8"

_UNQUANTIZED = ("F64", "F32", "F16", "BF16")
_FP8 = ("F8_E4M3", "F8_E5M2")
_SCALES = ("F32", "F16", "BF16")
_SCALE = "_scale_inv"  # by which, in spite of its name, weights are multiplied
_BLOCK = (128, 128)  # transformers' default

_REMEDY = "name a checkpoint of the model that is not quantized, or a GGUF file of it"


class Quantization(NamedTuple):
    """How weights are quantized in FP8: with a scale per block [rows, columns], or one for all."""

    block: tuple[int, int] | None


def quantization_of(name: str, config: PretrainedConfig) -> Quantization | None:
    """How a configuration says that its weights are quantized, or None if it doesn't."""
    for part in (config, config.get_text_config()):
        for entry in ENTRIES:
            described = getattr(part, entry, None)
            if described:
                return _described(name, entry, described)
    return None


def _described(name: str, entry: str, described: Any) -> Quantization:
    settings = described if isinstance(described, Mapping) else {}
    method = settings.get("quant_method")
    if entry != "quantization_config" or method != DEQUANTIZED:
        form = f"in the format {method}" if method else "in a format without a name (quant_method)"
        raise InputError(
            f"models.{name}: {entry} in its config.json says that its weights are quantized {form},"
            f" and only {DEQUANTIZED} is dequantized here; {_REMEDY}, or delete {entry} if the "
            "weights are not quantized."
        )
    match settings.get("weight_block_size", _BLOCK):
        case None:
            return Quantization(None)
        case [int(rows), int(columns)] if rows > 0 and columns > 0:
            return Quantization((rows, columns))
        case other:
            raise InputError(
                f"models.{name}: weight_block_size of {entry} in its config.json is {other}; it "
                "has to be two positive whole numbers, or null."
            )


def check_unquantized(name: str, tensors: Mapping[str, Stored]) -> None:
    """Reject weights that are quantized although no configuration says so."""
    for tensor, (dtype, shape) in tensors.items():
        if dtype not in _UNQUANTIZED and not is_derived(tensor, shape):
            raise InputError(
                f"models.{name}: {tensor} is stored as {dtype}, so it is quantized, and nothing in "
                f"its config.json says how to dequantize it; {_REMEDY}."
            )


def dequantized(
    name: str, quantization: Quantization, tensors: Mapping[str, Stored]
) -> dict[str, Stored]:
    """The tensors of an FP8 checkpoint as they are after dequantization, without their scales.

    A weight [rows, columns] has a scale per block, or a single one. Blocks have to divide it
    evenly: transformers infers their size from the number of scales, which is wrong if the last
    blocks are smaller.
    """
    quantized = {tensor for tensor, stored in tensors.items() if stored.dtype in _FP8}
    if not quantized:
        raise InputError(
            f"models.{name}: quantization_config in its config.json says {DEQUANTIZED}, but none "
            "of its tensors is; delete quantization_config if the weights are not quantized, or "
            "replace them with a complete copy."
        )
    for weight in sorted(quantized):
        _check_scale(name, quantization, weight, tensors)
    plain = {}
    for tensor, stored in tensors.items():
        if tensor in quantized:
            plain[tensor] = Stored("F32", stored.shape)
        elif tensor.removesuffix(_SCALE) not in quantized and not _of_activations(
            tensor, quantized
        ):
            plain[tensor] = stored
    for tensor in plain:
        if tensor.endswith(_SCALE):
            raise InputError(
                f"models.{name}: {tensor} is the scale of a weight that is not stored in "
                f"{DEQUANTIZED}; replace the weights with a complete copy, or {_REMEDY}."
            )
    check_unquantized(name, plain)
    return plain


def _check_scale(
    name: str, quantization: Quantization, weight: str, tensors: Mapping[str, Stored]
) -> None:
    shape, scale = tensors[weight].shape, tensors.get(weight + _SCALE)
    if scale is None:
        raise InputError(
            f"models.{name}: {weight} is stored as {tensors[weight].dtype} without its scale, "
            f"{weight + _SCALE}; replace the weights with a complete copy, or {_REMEDY}."
        )
    block = quantization.block
    if block is None:
        wanted, fits = "a single scale", scale.shape in ((), (1,), (1, 1))
    else:
        wanted = f"a scale per block of {block[0]} x {block[1]} entries"
        blocks = tuple(length * count for length, count in zip(block, scale.shape, strict=False))
        fits = len(scale.shape) == 2 and blocks == shape
    if len(shape) != 2 or not fits or scale.dtype not in _SCALES:
        raise InputError(
            f"models.{name}: {weight + _SCALE} is {scale.dtype} of shape {list(scale.shape)}, but "
            f"dequantization takes {wanted}, without rest, for the weight of shape {list(shape)}; "
            f"{_REMEDY}."
        )


def _of_activations(tensor: str, quantized: set[str]) -> bool:
    """Whether a tensor scales the inputs of a quantized weight; dequantized ones do without."""
    module, _, kind = tensor.rpartition(".")
    return kind == "activation_scale" and f"{module}.weight" in quantized
