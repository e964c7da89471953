r"""What ``make bench`` runs: every measurement compared with the plain way, and how cost grows.

    python benchmarks/page.py --model results/models/gemma-3-270m --shape smollm2-135m

It takes at most 10 minutes on two cores and writes its results into
``docs/reference/performance.md``, between the two comments that name this script.
Both ways run in this process, in float32, one after the other; each is timed at least twice after a
warm-up, and the median is taken. The plain ways are those of
``gpu.py``, ``compression.py``, and ``probes.py``.

A share of a limit relates the operations that are needed to the rate of a large matrix product.
For fits of β, it relates the bytes of weights that every step has to read, once forward and once
backward, to the rate of a copy of the weights, which reads and writes. Both rates are measured in
this process.
"""

import argparse
import gc
import math
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from compression import again, shared
from gpu import EXAMPLES, FIT, MEASUREMENTS, QUERY, Way, forward_operations, prompts_of, ways_of
from models import SHAPES, random_model, seconds
from prefix import predict
from probes import CLASSES, one_by_one
from reweighting import keep
from saliency import layer_parameters, matrix_rate, operations, ours
from saliency import random_prompts as saliency_prompts
from transformers import PreTrainedModel

from anchorflow.analyses.compression.observations import observe
from anchorflow.analyses.probes.measure import SHUFFLES, probe
from anchorflow.model.beta_fit import Planned, fit_side_by_side
from anchorflow.model.opening import open_model
from anchorflow.model.prefix import shared_token_ids

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/reference/performance.md"
CPU = torch.device("cpu")
TOKENS = 256  # of a prompt; saliency also has four times as many
NAMES = {
    "saliency": "saliency",
    "isolation": "isolation of the first and of the last layer",
    "prediction": "prediction",
    "kernel": "attention rows for kernel regression",
    "fit": "fit of β, one text per step",
}


class Rates(NamedTuple):
    """Rates per second that this process reaches."""

    operations: float  # of a large matrix product
    bytes: float  # read and written by a copy of the weights


def copy_rate(model: PreTrainedModel, budget: float) -> float:
    """Bytes per second that copying a model's weights reads and writes."""
    weights = [each for each in model.parameters() if each.dim() > 1]
    copies = [torch.empty_like(each) for each in weights]

    def copy() -> None:
        for each, to in zip(weights, copies, strict=True):
            to.copy_(each)

    return 2 * sum(each.nbytes for each in weights) / seconds(copy, CPU, budget)


def measurements(model: PreTrainedModel, rates: Rates, budget: float) -> Iterator[list[str]]:
    """Rows of the table of measurements."""
    for measurement, tokens in (*((name, TOKENS) for name in MEASUREMENTS), ("saliency", 1024)):
        fast, slow = ways_of(measurement, model, tokens, max(1, 1024 // tokens))
        took, took_plain = (seconds(way.run, CPU, budget) * way.times for way in (fast, slow))
        if measurement == "fit":
            read = 2 * EXAMPLES * FIT.epochs * 4 * layer_parameters(model)
            share = f"{read / took / rates.bytes:.0%} of memory bandwidth"
        else:
            share = f"{fast.operations / took / rates.operations:.0%} of the matrix rate"
        yield row_of(NAMES[measurement], tokens, fast, took, slow, took_plain, share)
    yield compressed(model, budget)


def row_of(
    name: str, tokens: int, fast: Way, took: float, slow: Way, took_plain: float, share: str
) -> list[str]:
    ms, plain_ms = 1000 * took / fast.prompts, 1000 * took_plain / slow.prompts
    return [name, str(tokens), f"{ms:.0f}", f"{plain_ms:.0f}", f"{plain_ms / ms:.1f}", share]


def compressed(model: PreTrainedModel, budget: float) -> list[str]:
    """Predictions from five random sets of kept tokens."""
    prompts = prompts_of(TOKENS)
    shown = observe(model, shared_token_ids(prompts), prompts.row(0, named=True))
    took = seconds(partial(shared, model, prompts, 5, 1024), CPU, budget)
    plain = seconds(partial(again, model, prompts, 5, 1024, shown), CPU, budget)
    ways = (Way(object, EXAMPLES, 0.0) for _ in range(2))
    name = "compression to five random sets of tokens"
    return row_of(name, TOKENS, next(ways), took, next(ways), plain, "–")


def side_by_side(model: PreTrainedModel, budget: float) -> float:
    """Time of all fits of two rates, to halves of the texts and to all, relative to one fit."""
    tokens = keep(model, prompts_of(TOKENS))
    every = torch.arange(tokens.size)

    def fits(some: Sequence[torch.Tensor], rates: Sequence[float]) -> None:
        plans = [
            Planned(replace(FIT, learning_rate=rate), rows, np.random.default_rng(0))
            for rate in rates
            for rows in some
        ]
        fit_side_by_side(model, tokens, plans)

    one = seconds(partial(fits, [every], [0.1]), CPU, budget)
    all_of_them = [every[::2], every[1::2], every]
    return seconds(partial(fits, all_of_them, [0.1, 0.01]), CPU, budget) / one


def probes(budget: float) -> float:
    """Speedup of ridge probes by fitting all their shuffles jointly."""
    random, count = np.random.default_rng(0), CLASSES * 8
    features = random.normal(size=(count, 256))
    targets = [random.integers(0, CLASSES, (count, 1 + SHUFFLES)) for _ in range(2)]
    folds = np.arange(count) // CLASSES % 5
    took, plain = (
        seconds(partial(way, features, targets, folds, 0.01), CPU, budget)
        for way in (probe, one_by_one)
    )
    return plain / took


class Growth(NamedTuple):
    """How seconds grow with a quantity, and how many operations it requires."""

    what: str
    values: list[int]
    seconds: list[float]
    expected: list[float]  # up to a factor


def growths(shape: str, model: PreTrainedModel, budget: float) -> Iterator[Growth]:
    """Cost of larger problems, with a model of this shape."""
    layers: int = model.config.num_hidden_layers

    def timed(run: Callable[..., object], *given: object) -> float:
        return seconds(partial(run, *given), CPU, budget)

    def texts(count: int, tokens: int) -> float:
        return timed(predict, model, prompts_of(tokens, examples=count), 1024, True)

    def needed(count: int, tokens: int) -> float:
        queries = count * forward_operations(model, QUERY, tokens - QUERY)
        return forward_operations(model, tokens - QUERY) + queries

    lengths, sizes = [128, 256, 512, 1024], [1, 2, 4, 8]
    some = [saliency_prompts(tokens, 1, 5000, CPU) for tokens in lengths]
    yield Growth(
        "tokens of a prompt (saliency)",
        lengths,
        [timed(ours, model, each, layers) for each in some],
        [operations(model, tokens) for tokens in lengths],
    )
    some = [saliency_prompts(128, size, 5000, CPU) for size in sizes]
    yield Growth(
        "prompts at once (saliency)",
        sizes,
        [timed(ours, model, each, layers) for each in some],
        [float(size) for size in sizes],
    )
    shown = [512, 1024, 2048]
    yield Growth(
        "tokens of demonstrations (prediction of 8 texts)",
        shown,
        [texts(8, tokens + QUERY) for tokens in shown],
        [needed(8, tokens + QUERY) for tokens in shown],
    )
    counts = [16, 64, 128]
    yield Growth(
        "test texts (prediction after 192 tokens of demonstrations)",
        counts,
        [texts(count, 256) for count in counts],
        [needed(count, 256) for count in counts],
    )
    kind, settings = SHAPES[shape]
    depths = [layers // 4, layers // 2, layers]
    key = "n_layer" if kind in ("gpt2", "gptj") else "num_hidden_layers"
    found = []
    for depth in depths:
        SHAPES["shallow"] = (kind, {**settings, key: depth})
        shallow = random_model("shallow", torch.float32, CPU, eager=False)
        found.append(timed(ours, shallow, saliency_prompts(256, 2, 5000, CPU), depth))
        del shallow
        gc.collect()
    yield Growth("layers (saliency)", depths, found, [float(depth) for depth in depths])
    seeds = [4, 16, 32]
    yield Growth(
        "cells (a dry run)", [3 * n for n in seeds], [*map(planning, seeds)], [*map(float, seeds)]
    )


def planning(seeds: int) -> float:
    """Seconds of a dry run with three tasks and this number of seeds, without earlier results."""
    with tempfile.TemporaryDirectory() as folder:
        chosen = Path(folder, "seeds.yaml")
        chosen.write_text(f"seeds: {list(range(seeds))}\n", encoding="utf-8")
        command = [sys.executable, "-m", "snakemake", "-n", "--quiet", "all", "--directory", folder]
        files = ["--snakefile", ROOT / "Snakefile", "--configfile", ROOT / "config/config.yaml"]
        start = time.perf_counter()
        subprocess.run([*command, *files, chosen], check=True, capture_output=True)
        return time.perf_counter() - start


def slope(values: Sequence[float], results: Sequence[float]) -> float:
    """The exponent of growth between the two largest values."""
    return math.log(results[-1] / results[-2]) / math.log(values[-1] / values[-2])


def table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> Iterator[str]:
    """The lines of a Markdown table, as its rows are measured."""
    for row in (head, ["---"] * len(head)):
        yield f"| {' | '.join(row)} |"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def of_model(name: str, model: PreTrainedModel, budget: float) -> Iterator[str]:
    """The measurements with one model."""
    rates = Rates(matrix_rate(torch.float32, CPU, budget), copy_rate(model, budget))
    yield (
        f"With {name}; a large matrix product reaches {rates.operations / 1e9:.0f} GFLOP/s, and a "
        f"copy of the weights {rates.bytes / 1e9:.1f} GB/s:"
    )
    yield ""
    head = ("measurement", "tokens", "ms", "ms, plain way", "times as fast", "share of the limit")
    yield from table(head, measurements(model, rates, budget))
    yield (
        "Fits of β with two learning rates, to each half of the texts and to all of them, take "
        f"{side_by_side(model, budget):.1f} times as long as one fit."
    )
    yield ""


def of_growth(shape: str, model: PreTrainedModel, budget: float) -> Iterator[str]:
    """How cost grows."""
    yield (
        "Cost as the work grows, with the same shape. The exponent is that of a power law between "
        "the two largest values; expected is that of the operations that are needed."
    )
    yield ""
    head = ("what grows", "values", "seconds", "exponent", "expected")
    rows = (
        [
            each.what,
            ", ".join(map(str, each.values)),
            ", ".join(f"{took:.2g}" for took in each.seconds),
            f"{slope(each.values, each.seconds):.2f}",
            f"{slope(each.values, each.expected):.2f}",
        ]
        for each in growths(shape, model, budget)
    )
    yield from table(head, rows)


def lines(folder: Path, shape: str, budget: float) -> Iterator[str]:
    """The section of the page."""
    yield (
        f"Written by `make bench` on {machine()}, with torch {torch.__version__} and "
        f"{torch.get_num_threads()} threads, in float32. Milliseconds are per prompt."
    )
    yield ""
    yield from of_model(f"`{folder.name}`", open_model(folder, CPU), budget)
    gc.collect()
    model = random_model(shape, torch.float32, CPU, eager=False)
    yield from of_model(f"random weights of {shape}'s shape", model, budget)
    yield f"Fitted together, ridge probes with all shuffles are {probes(budget):.0f} times as fast."
    yield ""
    yield from of_growth(shape, model, budget)


def machine() -> str:
    """The processor and its number of cores."""
    about = Path("/proc/cpuinfo")
    text = about.read_text(encoding="utf-8") if about.is_file() else ""
    named = re.search(r"model name\s*: (.+)", text)
    return f"{os.cpu_count()} cores of {named[1] if named else platform.processor()}"


def write_section(page: Path, script: str, lines: Iterator[str]) -> None:
    """Print the lines as they come, and write them between the comments that name the script."""
    begin, end = (f"<!-- benchmarks/{script}.py: {what} -->\n" for what in ("begin", "end"))
    before, rest = page.read_text(encoding="utf-8").split(begin)
    _, after = rest.split(end)
    found = []
    for line in lines:
        print(line, flush=True)
        found.append(line)
    page.write_text(before + begin + "\n".join(["", *found, ""]) + end + after, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True, help="a resolved model")
    parser.add_argument("--shape", choices=SHAPES, default="smollm2-135m")
    parser.add_argument("--seconds", type=float, default=1.0, help="per measurement")
    parser.add_argument("--page", type=Path, default=PAGE)
    arguments = parser.parse_args()
    torch.use_deterministic_algorithms(True)
    write_section(
        arguments.page, "page", lines(arguments.model, arguments.shape, arguments.seconds)
    )


if __name__ == "__main__":
    main()
