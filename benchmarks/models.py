"""Models for benchmarks, their command-line options, and timing."""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from anchorflow.model.attention_function import adopt
from anchorflow.model.opening import open_model

SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "tiny": (
        "llama",
        {
            "hidden_size": 64,
            "intermediate_size": 96,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "vocab_size": 5000,
            "max_position_embeddings": 4096,
        },
    ),
    "tiny-gpt2": (
        "gpt2",
        {"n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 4096, "vocab_size": 5000},
    ),
    "tiny-gptj": (
        "gptj",
        {
            "n_embd": 64,
            "n_layer": 3,
            "n_head": 4,
            "n_positions": 4096,
            "rotary_dim": 8,
            "vocab_size": 5000,
        },
    ),
    "gpt2": ("gpt2", {"n_positions": 2048}),
    "smollm2-135m": (
        "llama",
        {
            "hidden_size": 576,
            "intermediate_size": 1536,
            "num_hidden_layers": 30,
            "num_attention_heads": 9,
            "num_key_value_heads": 3,
            "vocab_size": 49152,
            "max_position_embeddings": 8192,
        },
    ),
    "gpt2-xl": ("gpt2", {"n_embd": 1600, "n_layer": 48, "n_head": 25, "n_positions": 4096}),
    "gpt-j-6b": (
        "gptj",
        {"n_embd": 4096, "n_layer": 28, "n_head": 16, "n_positions": 4096, "rotary_dim": 64},
    ),
    "llama-8b": (
        "llama",
        {
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "vocab_size": 128256,
            "max_position_embeddings": 8192,
        },
    ),
    "llama-70b": (
        "llama",
        {
            "hidden_size": 8192,
            "intermediate_size": 28672,
            "num_hidden_layers": 80,
            "num_attention_heads": 64,
            "num_key_value_heads": 8,
            "vocab_size": 128256,
            "max_position_embeddings": 8192,
        },
    ),
}


def random_model(shape: str, dtype: torch.dtype, device: torch.device, eager: bool) -> Any:
    """A model of a well-known shape with random weights."""
    kind, settings = SHAPES[shape]
    config = AutoConfig.for_model(kind, **settings)
    torch.manual_seed(0)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="eager")
    if not eager:
        adopt(model)
    model.requires_grad_(False)
    return model.eval()


def as_dtype(model: PreTrainedModel, dtype: torch.dtype) -> PreTrainedModel:
    """The model in another number format; buffers of rotary positions remain float32."""
    for parameter in model.parameters():
        parameter.data = parameter.data.to(dtype)
    return model


def model_parser(description: str) -> argparse.ArgumentParser:
    """A parser with options for the model, device, number format, and threads."""
    parser = argparse.ArgumentParser(description=description)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--model", type=Path, help="a resolved model, results/models/…")
    source.add_argument("--shape", choices=SHAPES, help="a random model of this shape")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    return parser


def model_of(arguments: argparse.Namespace) -> PreTrainedModel:
    """The model given on the command line, on its device, with our attention function."""
    torch.set_num_threads(arguments.threads)
    device, dtype = torch.device(arguments.device), getattr(torch, arguments.dtype)
    if arguments.shape:
        model: PreTrainedModel = random_model(arguments.shape, dtype, device, eager=False)
        return model
    return as_dtype(open_model(arguments.model, device), dtype)


def seconds(run: Callable[[], object], device: torch.device, budget: float) -> float:
    """Median seconds of a run after one warm-up, measured for about ``budget`` seconds."""
    times: list[float] = []
    run()
    while not times or (sum(times) < budget and len(times) < 20):
        if device.type == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
