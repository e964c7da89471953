"""Checkpoints quantized as their formats are, and what they are once they are dequantized."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

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


def packed(codes: Tensor, bits: int, order: Sequence[int] | None = None) -> Tensor:
    """Unsigned integers of the last axis in 32-bit words, of which ``order`` says the places."""
    each = 32 // bits
    order = range(each) if order is None else order
    words = torch.zeros(*codes.shape[:-1], -(-codes.shape[-1] // each), dtype=torch.int64)
    for index in range(codes.shape[-1]):
        word, place = divmod(index, each)
        words[..., word] += codes[..., index].long() << (bits * order.index(place))
    return torch.where(words >= 2**31, words - 2**32, words).int()


class Parts(NamedTuple):
    """How one format stores a weight [out, in], and what it stands for, entry by entry."""

    said: dict[str, Any]  # quantization_config
    stored: Callable[[Tensor], tuple[Tensors, Tensor]]  # by ends of names, and the weight

    def quantize(self, tensors: Tensors) -> None:
        self._change(tensors, lambda stem, parts, _: {stem + end: t for end, t in parts.items()})

    def plain(self, tensors: Tensors) -> None:
        self._change(tensors, lambda stem, _, whole: {f"{stem}weight": whole})

    def _change(self, tensors: Tensors, chosen: Callable[[str, Tensors, Tensor], Tensors]) -> None:
        torch.manual_seed(0)
        for name in linear(tensors):
            stem, weight = name.removesuffix("weight"), tensors.pop(name)
            tensors.update(chosen(stem, *self.stored(weight)))


GROUP = 16
_AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)  # which of eight entries is at each place of a word


def _grouped(weight: Tensor, bits: int = 4) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Random codes [in, out], zeros and scales [groups, out], a group per input, and the weight."""
    outputs, inputs = weight.shape
    codes = torch.randint(0, 2**bits, (inputs, outputs))
    zeros = torch.randint(1, 2**bits, (inputs // GROUP, outputs))
    scales = (torch.rand(inputs // GROUP, outputs) / 100 + 0.001).half()
    groups = torch.randperm(inputs) // GROUP
    whole = torch.empty(outputs, inputs)
    for i in range(inputs):
        whole[:, i] = scales[groups[i]].float() * (codes[i] - zeros[groups[i]])
    return codes, zeros, scales, groups, whole


def gptq(bits: int, form: str, key: str = "checkpoint_format") -> Parts:
    """Any group for every input, as with desc_act; the first version holds zeros less 1."""

    def stored(weight: Tensor) -> tuple[Tensors, Tensor]:
        codes, zeros, scales, groups, whole = _grouped(weight, bits)
        held = zeros - int(form == "gptq")
        parts = {"qweight": packed(codes.T, bits).T.contiguous(), "qzeros": packed(held, bits)}
        return {**parts, "scales": scales, "g_idx": groups.int()}, whole

    said = {"quant_method": "gptq", "bits": bits, "group_size": GROUP, key: form}
    return Parts(said, stored)


def _of_awq(weight: Tensor) -> tuple[Tensors, Tensor]:
    codes, zeros, scales, _, _ = _grouped(weight)
    whole = torch.stack(
        [scales[i // GROUP].float() * (codes[i] - zeros[i // GROUP]) for i in range(len(codes))], 1
    )
    words = {"qweight": packed(codes, 4, _AWQ_ORDER), "qzeros": packed(zeros, 4, _AWQ_ORDER)}
    return {**words, "scales": scales}, whole


def _of_bitsandbytes_8(weight: Tensor) -> tuple[Tensors, Tensor]:
    largest = weight.abs().amax(1)
    codes = (weight / largest[:, None] * 127).round().to(torch.int8)
    form = torch.tensor(0, dtype=torch.uint8)
    whole = codes.float() * largest[:, None] * (1 / 127)
    return {"weight": codes, "SCB": largest, "weight_format": form}, whole


def bitsandbytes_4(nested: bool) -> Parts:
    """A table of 16 entries, and blocks of 16; nested: their scales from a table of 256."""

    def stored(weight: Tensor) -> tuple[Tensors, Tensor]:
        count = weight.numel()
        table, codes = torch.linspace(-1, 1, 16), torch.randint(0, 16, (count,))
        said: dict[str, Any] = {"quant_type": "nf4", "blocksize": 16, "dtype": "bfloat16"}
        said["shape"] = list(weight.shape)
        blocks = count // 16
        parts = {"weight": (codes[::2] * 16 + codes[1::2]).to(torch.uint8)[:, None]}
        scale = torch.rand(blocks) / 10
        if nested:
            outer, inner = torch.rand(-(-blocks // 8)) / 10, torch.linspace(-1, 1, 256)
            short = torch.randint(0, 256, (blocks,))
            scale = torch.stack([inner[short[b]] * outer[b // 8] + 0.25 for b in range(blocks)])
            said |= {"nested_blocksize": 8, "nested_offset": 0.25, "nested_dtype": "float32"}
            parts |= {"weight.nested_absmax": outer, "weight.nested_quant_map": inner}
        parts["weight.absmax"] = short.to(torch.uint8) if nested else scale
        state = torch.tensor(list(json.dumps(said).encode()), dtype=torch.uint8)
        parts |= {"weight.quant_map": table, "weight.quant_state.bitsandbytes__nf4": state}
        whole = torch.stack([table[code] * scale[n // 16] for n, code in enumerate(codes)])
        return parts, whole.reshape(weight.shape).bfloat16().float()

    return Parts({"quant_method": "bitsandbytes", "load_in_4bit": True}, stored)


def compressed(form: str, **weights: Any) -> Parts:
    """Codes with a scale in bfloat16 per tensor, row, or group of a row."""

    def stored(weight: Tensor) -> tuple[Tensors, Tensor]:
        rows, columns = weight.shape
        bits, strategy = weights["num_bits"], weights["strategy"]
        wide = {"tensor": columns, "channel": columns, "group": GROUP}[strategy]
        shape = (1, 1) if strategy == "tensor" else (rows, columns // wide)
        scale = (torch.rand(shape) / 100 + 0.001).bfloat16()
        codes = torch.randint(-(2 ** (bits - 1)), 2 ** (bits - 1), (rows, columns))
        zeros = torch.zeros(shape, dtype=torch.int64)
        parts = {"weight_scale": scale.flatten() if strategy == "tensor" else scale}
        if weights["type"] == "float":
            short = torch.randn(rows, columns).to(torch.float8_e4m3fn)
            codes, parts["weight"] = short.float(), short
            parts["input_scale"] = torch.ones(1)
        elif form == "pack-quantized":
            zeros = torch.randint(-(2 ** (bits - 1)), 2 ** (bits - 1), shape)
            parts["weight_zero_point"] = packed((zeros + 2 ** (bits - 1)).T, bits).T.contiguous()
            parts["weight_packed"] = packed(codes + 2 ** (bits - 1), bits)
            parts["weight_shape"] = torch.tensor([rows, columns])
        else:
            parts["weight"] = codes.to(torch.int8)
        whole = torch.empty(rows, columns)
        for column in range(columns):
            group = column // wide
            exact = (codes[:, column] - zeros[:, group]).bfloat16() * scale[:, group]
            whole[:, column] = exact
        return parts, whole

    group = {"targets": ["Linear"], "weights": {**weights, "group_size": GROUP}}
    said = {"quant_method": "compressed-tensors", "format": form, "config_groups": {"0": group}}
    return Parts(said, stored)


def packed_floats(form: str, strategy: str) -> Parts:
    """NVFP4 with scales in FP8 that are divided by one, or MXFP4 with powers of 2."""
    sizes = [0, 0.5, 1, 1.5, 2, 3, 4, 6]

    def stored(weight: Tensor) -> tuple[Tensors, Tensor]:
        rows, columns = weight.shape
        codes = torch.randint(0, 16, (rows, columns))
        parts = {"weight_packed": (codes[:, ::2] + 16 * codes[:, 1::2]).to(torch.uint8)}
        shape = (rows, columns // GROUP)
        if strategy == "tensor_group":
            short = (torch.rand(shape) * 400).to(torch.float8_e4m3fn)
            parts |= {"weight_scale": short, "weight_global_scale": torch.tensor([9000.0])}
            parts["input_global_scale"] = torch.ones(1)
            scale = short.float() / 9000.0
        else:
            parts["weight_scale"] = torch.randint(115, 125, shape).to(torch.uint8)
            scale = 2.0 ** (parts["weight_scale"].float() - 127)
        whole = torch.empty(rows, columns)
        for column in range(columns):
            found = [sizes[code % 8] * (1 - code // 8 * 2) for code in codes[:, column].tolist()]
            whole[:, column] = torch.tensor(found) * scale[:, column // GROUP]
        return parts, whole.bfloat16().float()

    kind = {"num_bits": 4, "type": "float", "strategy": strategy, "group_size": GROUP}
    groups = {"0": {"targets": ["Linear"], "weights": kind}}
    said = {"quant_method": "compressed-tensors", "format": form, "config_groups": groups}
    return Parts(said, stored)


WITH_PARTS = {
    "gptq": gptq(4, "gptq"),
    "gptq-8-bits": gptq(8, "gptq_v2"),
    "gptq-of-today": gptq(4, "gptq_v2", "format"),
    "awq": Parts({"quant_method": "awq", "bits": 4, "group_size": GROUP}, _of_awq),
    "bitsandbytes-8": Parts({"quant_method": "bitsandbytes"}, _of_bitsandbytes_8),
    "bitsandbytes-4": bitsandbytes_4(nested=False),
    "bitsandbytes-4-nested": bitsandbytes_4(nested=True),
    "packed": compressed(
        "pack-quantized", num_bits=4, type="int", strategy="group", symmetric=False
    ),
    "nvfp4": packed_floats("nvfp4-pack-quantized", "tensor_group"),
    "mxfp4": packed_floats("mxfp4-pack-quantized", "group"),
    "integers": compressed("int-quantized", num_bits=8, type="int", strategy="channel"),
    "floats": compressed("float-quantized", num_bits=8, type="float", strategy="tensor"),
}
