r"""Saliency compared with the plain way: examples per second, memory, and the cost of bfloat16.

The plain way is that of [A]'s authors: transformers' eager attention with ``output_attentions``,
``retain_grad`` on every attention matrix, autograd, one example at a time. As in ours, parameters
are frozen and the language-model head runs at one position only, so that the comparison is about
attention. Both run in this process, on the same model and the same random prompts.

    python benchmarks/saliency.py --model results/models/gemma-3-270m
    python benchmarks/saliency.py --shape gpt2-xl --device cuda --dtype bfloat16
    python benchmarks/saliency.py --model results/models/gemma-3-270m \
        --prompts results/prompts/gemma-3-270m/*/0.parquet
    python benchmarks/saliency.py --model results/models/gemma-3-270m --controls

The last one reports how much longer saliency takes with its controls than with the flows alone.
"""

import argparse
import ctypes
import gc
import statistics
import time
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import torch
from models import as_dtype, model_of, model_parser, random_model, seconds
from torch import Tensor, nn
from transformers import PreTrainedModel

from anchorflow.analyses.flow.measure import (
    ControlSums,
    FlowMeans,
    FlowSums,
    batch_saliency,
    flow_means,
    kinds_with_controls,
    label_loss,
    measure_flow,
)
from anchorflow.model.batches import Batch
from anchorflow.model.layers import recompute_activations
from anchorflow.model.opening import MODEL_CARD, open_model, read_card
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.store.checksums import fingerprints, write_json
from anchorflow.store.parquet import read_tables

# Ours, ours with activations recomputed in the backward pass, and the plain way.
WAYS = ("ours", "recomputed", "plain")


def random_prompts(tokens: int, size: int, vocabulary: int, device: torch.device) -> Batch:
    """Random prompts of one length with four label positions."""
    random = torch.Generator().manual_seed(tokens)
    ends = torch.arange(1, 5) * (tokens // 5)
    return Batch(
        examples=list(range(size)),
        input_ids=torch.randint(vocabulary, (size, tokens), generator=random).to(device),
        lengths=torch.full((size,), tokens, device=device),
        target_positions=torch.full((size,), tokens - 1, device=device),
        label_positions=(ends - 2).expand(size, -1).to(device),
        label_ends=(ends - 1).expand(size, -1).to(device),
        demonstration_starts=(ends - tokens // 5).expand(size, -1).to(device),
        demonstration_ends=ends.expand(size, -1).to(device),
        demonstration_labels=torch.arange(4).expand(size, -1).to(device),
        label_tokens=torch.tensor([11, 23, 47, 95], device=device),
        labels=torch.zeros(size, dtype=torch.long, device=device),
    )


def ours(model: PreTrainedModel, batch: Batch, layers: int) -> FlowMeans:
    """S_wp, S_pq, and S_ww of a batch, our way."""
    sums = FlowSums(batch)
    batch_saliency(model, batch, sums)
    return sums.means(layers)


def with_controls(model: PreTrainedModel, batch: Batch, layers: int) -> dict[str, Tensor]:
    """The same with all controls, from the prompts on."""
    sums = ControlSums(batch, kinds_with_controls(rows_of(batch)))
    batch_saliency(model, batch, sums)
    return sums.columns(layers)


def rows_of(batch: Batch) -> list[dict[str, Any]]:
    """The rows of ``PROMPTS`` that a batch of :func:`random_prompts` would come from."""
    ends = batch.demonstration_ends.tolist()
    return [
        {
            "task": "random",
            "seed": 0,
            "demonstrations": "per_example",
            "example": example,
            "tokens": int(batch.lengths[row]),
            "label_positions": batch.label_positions[row].tolist(),
            "label_ends": batch.label_ends[row].tolist(),
            "format_positions": [t for end in ends[row] for t in (end - 3, end - 1)],
            "demonstration_starts": batch.demonstration_starts[row].tolist(),
            "demonstration_ends": ends[row],
            "query_start": ends[row][-1],
            "instruction_end": None,
            "target_position": int(batch.target_positions[row]),
        }
        for row, example in enumerate(batch.examples)
    ]


def plain(model: PreTrainedModel, batch: Batch) -> list[Tensor]:
    """The same, one example at a time, keeping every attention matrix and its gradient."""
    means = []
    for row in range(batch.size):
        ids = batch.input_ids[row : row + 1]
        embeddings = model.get_input_embeddings()(ids).detach().requires_grad_()
        output = model(
            inputs_embeds=embeddings, output_attentions=True, use_cache=False, logits_to_keep=1
        )
        for attention in output.attentions:
            attention.retain_grad()
        one = Batch(
            **{
                name: value
                if name == "label_tokens" or isinstance(value, int)
                else value[row : row + 1]
                for name, value in vars(batch).items()
            }
        )
        label_loss(output.logits[:, -1, one.label_tokens].float(), one).backward()
        per_layer = []
        for attention in output.attentions:
            saliency = (attention * attention.grad)[0].sum(0).abs().float()
            target = one.target_positions[0]
            per_layer.append(
                torch.stack(
                    flow_means(
                        saliency.tril(-1).sum(-1),
                        saliency[target, one.label_positions[0]],
                        one.label_positions[0],
                        target,
                    )
                )
            )
        means.append(torch.stack(per_layer, 1))
    return means


def reset_peak(device: torch.device) -> float:
    """Release freed memory and reset the peak; returns the memory in use, in MB."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated() / 1e6
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return peak(device)


def peak(device: torch.device) -> float:
    """Peak memory use since :func:`reset_peak`, in MB."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated() / 1e6
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1e3


def matrix_rate(dtype: torch.dtype, device: torch.device, budget: float = 3.0) -> float:
    """Floating-point operations per second of a large matrix product."""
    side = 8192 if device.type == "cuda" else 2048
    a = torch.randn(side, side, device=device).to(dtype)
    return 2 * side**3 / seconds(lambda: a @ a, device, budget)


def layer_parameters(model: PreTrainedModel) -> int:
    """Number of parameters outside embeddings."""
    embedding = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    left_out = {id(module.weight) for module in (*embedding, model.get_output_embeddings())}
    return sum(p.numel() for p in model.parameters() if id(p) not in left_out)


def operations(model: PreTrainedModel, tokens: int) -> float:
    """Floating-point operations for the saliency of one example, forward and backward.

    4 · parameters outside embeddings · tokens, plus seven products of attention (two forward,
    five backward) over the visible pairs.
    """
    config = model.config
    parameters = layer_parameters(model)
    kinds = getattr(config, "layer_types", None) or ["full_attention"] * config.num_hidden_layers
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    attention = 0.0
    for kind in kinds:
        window = config.sliding_window if kind == "sliding_attention" else tokens
        pairs = sum(min(i + 1, window) for i in range(tokens))
        attention += 7 * 2 * pairs * head * config.num_attention_heads
    return 4 * parameters * tokens + attention


def compare(arguments: argparse.Namespace, dtype: torch.dtype, device: torch.device) -> None:
    """Print one line per prompt length: ours, plain, ratios, share of the matrix-product rate."""

    def load(eager: bool) -> Any:
        if arguments.shape:
            return random_model(arguments.shape, dtype, device, eager)
        return as_dtype(open_model(arguments.model, device, eager=eager), dtype)

    rate = matrix_rate(dtype, device)
    print(f"matrix products: {rate / 1e9:.0f} GFLOP/s, {dtype}, {device}", flush=True)
    print(
        "tokens batch | ex/s: ours  recomputed   plain    ratios | "
        "MB: ours recomputed  plain    shares | GFLOP/ex  of matrix rate"
    )
    for tokens in arguments.tokens:
        size = max(1, arguments.batch_tokens // tokens)
        measured: dict[str, tuple[float, float]] = {"plain": (float("nan"), float("nan"))}
        for name in ("ours", "recomputed") if arguments.without_plain else WAYS:
            model = load(eager=name == "plain")
            layers = model.config.num_hidden_layers
            if name == "recomputed":
                recompute_activations(model)
            one = random_prompts(tokens, 1, 5000, device)
            batch = one if name == "plain" else random_prompts(tokens, size, 5000, device)
            way = plain if name == "plain" else partial(ours, layers=layers)
            way(model, one)
            before = reset_peak(device)
            way(model, one)
            memory = peak(device) - before
            run = partial(way, model, batch)
            measured[name] = (batch.size / seconds(run, device, arguments.budget), memory)
            needed = operations(model, tokens)
            del model, run
        speed, memory = zip(*(measured[name] for name in WAYS), strict=True)
        print(
            f"{tokens:6d} {size:5d} | "
            f"{speed[0]:10.2f} {speed[1]:10.2f} {speed[2]:8.2f} "
            f"{speed[0] / speed[2]:5.2f} {speed[1] / speed[2]:5.2f} | "
            f"{memory[0]:8.0f} {memory[1]:10.0f} {memory[2]:6.0f} "
            f"{memory[0] / memory[2]:5.2f} {memory[1] / memory[2]:5.2f} | "
            f"{needed / 1e9:8.0f} {speed[0] * needed / rate:12.0%}",
            flush=True,
        )


def compare_controls(arguments: argparse.Namespace, device: torch.device) -> None:
    """Print how much longer the controls take; runs with and without them take turns.

    On a CPU, the time is that of the processor, which other processes affect less.
    """
    model = model_of(arguments)
    clock = time.process_time if device.type == "cpu" else time.perf_counter
    layers = model.config.num_hidden_layers
    for tokens in arguments.tokens:
        batch = random_prompts(tokens, max(1, arguments.batch_tokens // tokens), 5000, device)
        ratios: list[float] = []
        spent = 0.0
        while len(ratios) < 5 or spent < arguments.budget:
            taken = []
            # The other way round each time, so that a slower or faster machine favors neither.
            for way in (ours, with_controls)[:: 1 if len(ratios) % 2 else -1]:
                start = clock()
                way(model, batch, layers)  # its sums end on the CPU, so a GPU has finished
                taken.append(clock() - start)
            spent += sum(taken)
            first, last = taken if len(ratios) % 2 else reversed(taken)
            ratios.append(last / first)
        low, median, high = statistics.quantiles(ratios[1:], n=4)
        print(
            f"{tokens:6d} tokens, {batch.size:4d} prompts: {median - 1:+.1%} "
            f"(quartiles {low - 1:+.1%}, {high - 1:+.1%}; {len(ratios) - 1} pairs of runs)",
            flush=True,
        )


def compare_formats(arguments: argparse.Namespace, device: torch.device) -> None:
    """Print the error of bfloat16 in S_wp, S_pq, and S_ww over real prompts, and its speedup."""
    prompts = read_tables(arguments.prompts, PROMPTS)
    results, times = {}, {}
    for dtype in (torch.float32, torch.bfloat16):
        folder = with_dtype(arguments.model, dtype)
        model = open_model(folder, device)
        parts = prompts.partition_by("task", "seed")
        start = time.perf_counter()
        frames = [measure_flow(model, part, arguments.batch_tokens) for part in parts]
        times[dtype] = time.perf_counter() - start
        results[dtype] = (
            pl.concat(frames).group_by("layer").agg(pl.col("s_wp", "s_pq", "s_ww").mean())
        ).sort("layer")
    full, half = results[torch.float32], results[torch.bfloat16]
    print(f"bfloat16 is {times[torch.float32] / times[torch.bfloat16]:.1f} times as fast")
    for name in ("s_wp", "s_pq", "s_ww"):
        error = ((half[name] - full[name]).abs() / full[name]).filter(full[name] > 0)
        print(
            f"{name}: relative error by layer, median {error.median():.1%}, max {error.max():.1%}"
        )


def with_dtype(folder: Path, dtype: torch.dtype) -> Path:
    """A view of a resolved model whose card requests another number format."""
    view = folder.parent / f".{folder.name}-{str(dtype).removeprefix('torch.')}"
    view.mkdir(exist_ok=True)
    card = {"directory": str(folder.resolve()), **read_card(folder)}
    card["dtype"] = str(dtype).removeprefix("torch.")
    (view / "config.json").write_text((folder / "config.json").read_text(), encoding="utf-8")
    card["files"] = fingerprints([view / "config.json"])
    write_json(view / MODEL_CARD, card)
    return view


def main() -> None:
    parser = model_parser(__doc__.splitlines()[0])
    parser.add_argument("--prompts", type=Path, nargs="+", help="compare number formats on these")
    parser.add_argument("--tokens", type=int, nargs="+", default=[128, 256, 512, 1024, 2048])
    parser.add_argument("--batch-tokens", type=int, default=2048)
    parser.add_argument("--budget", type=float, default=15.0, help="seconds per measurement")
    parser.add_argument("--without-plain", action="store_true")
    parser.add_argument("--controls", action="store_true", help="time what the controls take")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    device = torch.device(arguments.device)
    if arguments.controls:
        compare_controls(arguments, device)
    elif arguments.prompts:
        compare_formats(arguments, device)
    else:
        compare(arguments, getattr(torch, arguments.dtype), device)


if __name__ == "__main__":
    main()
