r"""Planned memory compared with the measured peak, for shapes of models with random weights.

Weights are first written to a file in the usual format, so that they are mapped into memory like
those of real models. Each stage then runs in a separate process. Its peak is that of its resident
memory, minus the memory after importing torch and the stage.

    python benchmarks/memory.py --shape gpt2-xl --folder /tmp/shapes
    python benchmarks/memory.py --shape gpt-j-6b --folder /tmp/shapes --stages flow
"""

import argparse
import json
import logging
import re
import shutil
import subprocess
import sys
import time
from math import prod
from pathlib import Path
from typing import Any

import polars as pl
import torch
from models import SHAPES
from prefix import random_prompts
from saliency import peak, reset_peak
from transformers import AutoConfig, AutoModelForCausalLM

from anchorflow.analyses.flow import measure as flow
from anchorflow.analyses.isolation import measure as isolation
from anchorflow.model.opening import MODEL_CARD, open_for_job
from anchorflow.store.checksums import fingerprints, write_json

STAGES = ("flow", "isolation")
COMPUTE = {"device": "auto", "batch_tokens": 512, "recompute": False}


def write_model(shape: str, dtype: str, folder: Path) -> None:
    """A resolved model of a well-known shape with random weights."""
    kind, settings = SHAPES[shape]
    config = AutoConfig.for_model(kind, dtype=dtype, **settings)
    config.save_pretrained(folder)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    # Of tied parameters, named_parameters has one.
    tensors = {name: tuple(each.shape) for name, each in model.named_parameters()}
    number_format = getattr(torch, dtype)
    size, header, end = number_format.itemsize, {}, 0
    for name, sizes in tensors.items():
        end += prod(sizes) * size
        code = {"bfloat16": "BF16", "float32": "F32"}[dtype]
        span = [end - prod(sizes) * size, end]
        header[name] = {"dtype": code, "shape": sizes, "data_offsets": span}
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    random = torch.randn(2**24, generator=torch.Generator().manual_seed(0)).mul_(0.02)
    ones = random.add(1).to(number_format).view(torch.uint8).numpy()
    noise = random.to(number_format).view(torch.uint8).numpy()
    with open(folder / "model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for sizes in tensors.values():
            left = prod(sizes) * size
            while left:  # weights of norms have one dimension, and so have biases
                some = (ones if len(sizes) == 1 else noise)[:left]
                file.write(some.data)
                left -= len(some)
    card = {"name": shape, "dtype": dtype, "files": fingerprints([folder / "config.json"])}
    write_json(folder / MODEL_CARD, card)


def measure(stage: str, folder: Path, arguments: argparse.Namespace) -> None:
    """Run one stage and print what was planned and measured."""
    prompts = random_prompts(arguments.query, arguments.times, arguments.prompts)
    config = AutoConfig.from_pretrained(folder)
    depth: int = config.get_text_config().num_hidden_layers
    spec: dict[str, Any] = {"demonstrations": "per_example"}
    if stage == "isolation":
        spec = {"variants": ["mask"], "positions": ["label", "random"], "draws": 1, "layers": [5]}
        cost = isolation.cost
    else:
        cost = flow.cost
        prompts = prompts.with_columns(demonstrations=pl.lit("per_example"))
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_num_threads(arguments.threads)
    compute = {**COMPUTE, "batch_tokens": arguments.batch_tokens}
    logged: list[str] = []
    logging.getLogger("anchorflow.model.size").addHandler(_Keeping(logged))
    logging.getLogger("anchorflow").setLevel(logging.INFO)
    torch.ones(64, 64, device=device) @ torch.ones(64, 64, device=device)
    before, start = reset_peak(device), time.perf_counter()
    model = open_for_job(folder, compute, arguments.threads, prompts, cost, spec)
    opened = time.perf_counter() - start
    if stage == "flow":
        flow.measure_flow(model, prompts, arguments.batch_tokens)
    else:
        settings = isolation.settings_of(["mask"], [5], 1, depth, arguments.shape)
        isolation.measure_isolation(model, prompts, settings, 5, arguments.batch_tokens)
    taken, measured = time.perf_counter() - start, peak(device) - before
    print(f"{arguments.shape}, {stage}:", *logged, sep="\n  ")
    (found,) = re.findall(r"Memory: ([0-9.]+) GiB", "\n".join(logged))
    planned = float(found) * 2**30 / 1e6
    print(
        f"  planned {planned:.0f} MB, measured {measured:.0f} MB in addition to {before:.0f} MB of "
        f"libraries, ratio {planned / measured:.3f}\n"
        f"  {taken:.1f} s, of which {opened:.1f} s for opening",
        flush=True,
    )


class _Keeping(logging.Handler):
    """Keeps what is logged."""

    def __init__(self, logged: list[str]) -> None:
        super().__init__()
        self._logged = logged

    def emit(self, record: logging.LogRecord) -> None:
        self._logged.append(record.getMessage())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", choices=SHAPES, required=True)
    parser.add_argument("--folder", type=Path, required=True, help="for weights; deleted later")
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=STAGES)
    parser.add_argument("--query", type=int, default=24, help="tokens of a query")
    parser.add_argument("--times", type=int, default=4, help="queries' lengths in a prompt")
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--batch-tokens", type=int, default=512)
    parser.add_argument("--dtype", default="bfloat16", choices=["float32", "bfloat16"])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.alone:
        measure(arguments.stages[0], arguments.folder, arguments)
        return
    folder = arguments.folder / arguments.shape
    folder.mkdir(parents=True)
    try:
        write_model(arguments.shape, arguments.dtype, folder)
        for stage in arguments.stages:
            same: list[Any] = [part for part in sys.argv[1:] if part not in (*STAGES, "--stages")]
            same += ["--folder", folder, "--stages", stage, "--alone"]
            subprocess.run([sys.executable, __file__, *map(str, same)], check=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
