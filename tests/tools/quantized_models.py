"""Checkpoints quantized as their formats are, and what they are once they are dequantized."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

Tensors = dict[str, Tensor]
FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [16, 16]}
LARGEST = 448.0  # of the format with four bits of exponent and three of mantissa


def rewritten(
    model: Path, folder: Path, change: Callable[[Tensors], Any] | None = None, **configuration: Any
) -> Path:
    """A copy of a model in ``folder/source`` with other tensors and entries in its config.json."""
    shutil.copytree(model, folder / "source")
    path, weights = folder / "source" / "config.json", folder / "source" / "model.safetensors"
    content = {**json.loads(path.read_text(encoding="utf-8")), **configuration}
    path.write_text(json.dumps(content), encoding="utf-8")
    if change is not None:
        tensors = load_file(weights)
        change(tensors)
        save_file(tensors, weights, metadata={"format": "pt"})
    return folder


def linear(tensors: Tensors) -> list[str]:
    """The weights that formats quantize: those of linear layers inside decoder layers."""
    return [name for name in tensors if name.endswith("proj.weight")]


def to_fp8(block: int | None) -> Callable[[Tensors], None]:
    """Quantize with a scale per square block, or a single one."""

    def quantize(tensors: Tensors) -> None:
        for name in linear(tensors):
            rows, columns = tensors[name].shape
            down, across = (rows, columns) if block is None else (block, block)
            blocks = tensors[name].reshape(rows // down, down, columns // across, across)
            scale = blocks.abs().amax((1, 3)) / LARGEST
            scaled = (blocks / scale[:, None, :, None]).reshape(rows, columns)
            tensors[name] = scaled.to(torch.float8_e4m3fn)
            tensors[f"{name}_scale_inv"] = scale.squeeze() if block is None else scale

    return quantize


def from_fp8(block: int | None) -> Callable[[Tensors], None]:
    """Quantize, and write out entry by entry what each stands for."""

    def dequantize(tensors: Tensors) -> None:
        to_fp8(block)(tensors)
        for name in linear(tensors):
            scale = tensors.pop(f"{name}_scale_inv")
            if block is not None:
                scale = scale.repeat_interleave(block, 0).repeat_interleave(block, 1)
            tensors[name] = tensors[name].float() * scale

    return dequantize


def to_8_bits(tensors: Tensors) -> None:
    """As bitsandbytes stores them: integers of the weight's shape, and a scale per row."""
    for name in linear(tensors):
        largest = tensors[name].abs().amax(1)
        tensors[name] = (tensors[name] / largest[:, None] * 127).round().to(torch.int8)
        tensors[name.replace("weight", "SCB")] = largest


def to_4_bits(tensors: Tensors) -> None:
    """As GPTQ stores them: eight entries of a column in one integer, and a scale per group."""
    for name in linear(tensors):
        weight = tensors.pop(name)
        rows, columns = weight.shape
        stem = name.removesuffix("weight")
        tensors[f"{stem}qweight"] = torch.ones(columns // 8, rows, dtype=torch.int32)
        tensors[f"{stem}qzeros"] = torch.ones(1, rows // 8, dtype=torch.int32)
        tensors[f"{stem}scales"] = torch.ones(1, rows, dtype=torch.float16)
        tensors[f"{stem}g_idx"] = torch.zeros(columns, dtype=torch.int32)
