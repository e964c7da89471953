r"""Every measurement on one CUDA GPU, compared with the plain way, within minutes.

    PYTHONPATH=workflow python benchmarks/gpu.py --json gpu.json
    PYTHONPATH=workflow python benchmarks/gpu.py --device cpu --shapes tiny --budget 60

First come the tests that need CUDA, if pytest is installed, then the most informative cases:
saliency in bfloat16 at 1024, 512, and 4096 tokens, the other measurements at 1024, and the same in
float32. Cases for which no time is left are listed. Weights are random and made on the device;
nothing is downloaded or kept. Of this project's libraries, only torch, transformers, polars,
pyarrow, and psutil are needed.

The plain way runs every prompt in full. For saliency, prediction, and the attention rows of kernel
regression, it uses transformers' eager attention; for saliency and rows, it keeps every matrix, one
prompt at a time. Isolation and the fit of β change attention, which only our attention function
allows, so their plain way uses it too.

Times are medians after a warm-up. Memory is the peak beyond the weights. The share of the card's
matrix rate counts only the operations that are needed, relative to the rate of a large product in
the same number format. The error is that of a tiny model of the same architecture on the device,
compared with the plain way in float64 on the CPU with the same weights.
"""

import argparse
import gc
import importlib.util
import io
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import psutil
import torch
import transformers
from kernel import attention_rows, plain_rows
from models import SHAPES, as_dtype, random_model, seconds
from prefix import isolated_in_full, predict, random_prompts
from reweighting import fit, fit_in_full
from saliency import layer_parameters, matrix_rate, operations, ours, peak, plain, reset_peak
from saliency import random_prompts as saliency_prompts
from torch import Tensor
from transformers import PreTrainedModel

from anchorflow.analyses.isolation.measure import UNTOUCHED, Setting, measure_isolation, settings_of
from anchorflow.config.errors import InputError, is_out_of_memory
from anchorflow.model.beta_fit import Descent
from anchorflow.model.devices import choose_device

TESTS = Path(__file__).resolve().parents[1] / "tests"
MEASUREMENTS = ("saliency", "isolation", "prediction", "kernel", "fit")
TOKENS = [1024, 512, 4096, 128, 2048, 256]  # the most informative first
TINY = {"llama": "tiny", "gpt2": "tiny-gpt2", "gptj": "tiny-gptj"}  # of each architecture
QUERY = 64  # tokens of a query after shared demonstrations
EXAMPLES = 8  # queries
FAILED = "failed"
BATCH = 4096  # tokens in one batch
KEPT_BACK = 1 / 36  # of the time, for a case that takes longer than expected
FIT = Descent(learning_rate=0.1, epochs=10, batch_size=1)


class Case(NamedTuple):
    """A measurement at one shape, number format, and length of prompts."""

    shape: str
    dtype: str
    measurement: str
    tokens: int


class Way(NamedTuple):
    """One way to measure ``prompts`` prompts, and the operations that one run of it needs.

    ``times``: the whole measurement takes this many times as long as the run.
    """

    run: Callable[[], object]
    prompts: int
    operations: float
    times: int = 1


class Taken(NamedTuple):
    """Seconds and peak memory in MB of a run."""

    seconds: float
    memory: float


@dataclass(frozen=True)
class Row:
    """A row of the table; None where a way does not fit into the card's memory."""

    model: str
    dtype: str
    measurement: str
    tokens: int
    prompts: int | None  # at once
    ms_per_prompt: float | None
    ms_per_prompt_plain: float | None
    times_as_fast: float | None
    share_of_matrix_rate: float | None
    mb_per_prompt: float | None
    mb_per_prompt_plain: float | None
    error: float


def cases_of(
    shapes: Sequence[str], dtypes: Sequence[str], lengths: Sequence[int]
) -> Iterator[Case]:
    """All cases, the cheapest and most informative first; those of one model are adjacent."""
    first, main = lengths[:1], lengths[:3]
    rest = lengths[3:]
    rounds = [
        *([(dtype, MEASUREMENTS[:1], main), (dtype, MEASUREMENTS[1:], first)] for dtype in dtypes),
        *([(dtype, MEASUREMENTS[:1], rest), (dtype, MEASUREMENTS[1:], lengths[1:])]
          for dtype in dtypes),
    ]  # fmt: skip
    for together in rounds:
        for shape in shapes:
            for dtype, measurements, some in together:
                for tokens in some:
                    for measurement in measurements:
                        yield Case(shape, dtype, measurement, tokens)


@contextmanager
def eager(model: PreTrainedModel) -> Iterator[None]:
    """The same model under transformers' eager attention."""
    config, own = model.config, {}
    implementation = config._attn_implementation
    for module in model.modules():
        if "_attn" in vars(module):  # where ours replaced a method
            own[module] = vars(module).pop("_attn")
    config._attn_implementation = "eager"
    try:
        yield
    finally:
        config._attn_implementation = implementation
        for module, attend in own.items():
            module._attn = attend


def eagerly(run: Callable[..., Any], model: PreTrainedModel, *given: Any) -> Any:
    """The result of a run under eager attention."""
    with eager(model):
        return run(model, *given)


def quietly(run: Callable[..., Any], *given: Any) -> Any:
    """The result of a run without its progress bar."""
    with redirect_stderr(io.StringIO()):
        return run(*given)


def prompts_of(tokens: int, query: int = QUERY, examples: int = EXAMPLES) -> pl.DataFrame:
    """Random prompts with shared demonstrations, in all ``tokens`` tokens long."""
    prompts = random_prompts(query, tokens // query, examples)
    return prompts.with_columns(pl.Series("label", [i % 4 for i in range(examples)]))


def settings_for(model: PreTrainedModel) -> list[Setting]:
    """Label words isolated in the first layer, and in the last."""
    depth = model.config.num_hidden_layers
    return settings_of(["mask"], [1], 1, depth, "random", ["label"])


def forward_operations(model: PreTrainedModel, tokens: int, before: int = 0) -> float:
    """Floating-point operations of a forward pass of ``tokens`` tokens after ``before`` others."""
    config = model.config
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    pairs = tokens * before + tokens * (tokens + 1) // 2
    width = head * config.num_attention_heads * config.num_hidden_layers
    return 2 * layer_parameters(model) * tokens + 4 * pairs * width


def ways_of(measurement: str, model: PreTrainedModel, tokens: int, size: int) -> tuple[Way, Way]:
    """Our way, with ``size`` prompts at once for saliency, and the plain way."""
    if measurement == "saliency":
        needed = operations(model, tokens)
        one, batch = (saliency_prompts(tokens, n, 5000, model.device) for n in (1, size))
        return (
            Way(partial(ours, model, batch, model.config.num_hidden_layers), size, size * needed),
            Way(partial(eagerly, plain, model, one), 1, needed),
        )
    prompts, before = prompts_of(tokens), tokens - QUERY
    demonstrations = forward_operations(model, before)
    queries = EXAMPLES * forward_operations(model, QUERY, before)
    full = EXAMPLES * forward_operations(model, tokens)
    shared = demonstrations + queries
    if measurement == "prediction":
        return (
            Way(partial(predict, model, prompts, BATCH, True), EXAMPLES, shared),
            Way(partial(eagerly, predict, model, prompts, BATCH, False), EXAMPLES, full),
        )
    if measurement == "kernel":
        return (
            Way(partial(attention_rows, model, prompts, BATCH), EXAMPLES, shared),
            Way(partial(eagerly, plain_rows, model, prompts), EXAMPLES, full),
        )
    if measurement == "isolation":
        settings, depth = settings_for(model), model.config.num_hidden_layers
        starts = [setting.isolated_layers(depth).start for setting in settings]
        again = sum((depth - start) * demonstrations for start in starts)
        again += sum((depth - start - 1) * queries for start in starts)
        return (
            Way(
                partial(quietly, measure_isolation, model, prompts, settings, 5, BATCH),
                EXAMPLES,
                shared + again / depth,
            ),
            Way(
                partial(isolated_in_full, model, prompts, settings, BATCH),
                EXAMPLES,
                full * (1 + len(settings)),
            ),
        )
    # Of the tokens that fitting runs, the backward pass costs as much as the forward pass.
    steps = 2 * EXAMPLES * forward_operations(model, 1, tokens - 1)
    return (
        Way(partial(fit, model, prompts, FIT), EXAMPLES, shared + FIT.epochs * steps),
        Way(partial(fit_in_full, model, prompts, FIT, 1), EXAMPLES, 2 * full, times=FIT.epochs),
    )


def freed(device: torch.device) -> None:
    """Free unused memory."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def taken(way: Way, device: torch.device, budget: float) -> Taken | None:
    """Time and memory of a way; None if it does not fit into memory."""
    freed(device)
    before = reset_peak(device)
    try:
        return Taken(seconds(way.run, device, budget) * way.times, peak(device) - before)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    except InputError as error:
        if "does not fit into memory" not in str(error):  # as jobs report a single prompt
            raise
    freed(device)  # not in the handler, where the error still references what the run computed
    return None


def measured(case: Case, model: PreTrainedModel, rate: float, error: float, budget: float) -> Row:
    """Run a case, with fewer prompts at once if memory runs out."""
    device, size = model.device, max(1, BATCH // case.tokens)
    fast, slow = ways_of(case.measurement, model, case.tokens, size)
    by_plain = taken(slow, device, budget)
    while (by_ours := taken(fast, device, budget)) is None and size > 1:
        if case.measurement != "saliency":
            break  # these lower their batches themselves
        size //= 2
        fast, _ = ways_of(case.measurement, model, case.tokens, size)

    def per_prompt(way: Way, took: Taken | None) -> tuple[float | None, float | None]:
        if took is None:
            return None, None
        return 1000 * took.seconds / way.prompts, took.memory / way.prompts

    (ms, mb), (plain_ms, plain_mb) = per_prompt(fast, by_ours), per_prompt(slow, by_plain)
    return Row(
        model=case.shape,
        dtype=case.dtype,
        measurement=case.measurement,
        tokens=case.tokens,
        prompts=fast.prompts if by_ours else None,
        ms_per_prompt=ms,
        ms_per_prompt_plain=plain_ms,
        times_as_fast=plain_ms / ms if ms and plain_ms else None,
        share_of_matrix_rate=fast.operations / by_ours.seconds / rate if by_ours else None,
        mb_per_prompt=mb,
        mb_per_prompt_plain=plain_mb,
        error=error,
    )


def expected_seconds(case: Case, model: PreTrainedModel, rate: float, budget: float) -> float:
    """About how long a case takes at a quarter of the matrix rate.

    Both ways run at least twice, and at least for about ``budget`` seconds.
    """
    ways = ways_of(case.measurement, model, case.tokens, max(1, BATCH // case.tokens))
    return sum(2 * max(budget, 4 * way.operations / rate) for way in ways)


def relative(a: Tensor, b: Tensor) -> float:
    """Largest difference relative to the largest value, of the worst part along the first axis."""
    a, b = a.detach().double().cpu().flatten(1), b.detach().double().cpu().flatten(1)
    return float(((a - b).abs().amax(1) / b.abs().amax(1)).max())


def errors(kind: str, dtype: torch.dtype, device: torch.device) -> dict[str, float]:
    """Relative errors of every measurement on a tiny model, against float64 on the CPU."""
    cpu = torch.device("cpu")

    def tiny() -> PreTrainedModel:
        model = random_model(TINY[kind], torch.float32, cpu, eager=False)
        random = torch.Generator().manual_seed(0)
        for parameter in model.parameters():  # larger than by default, for uneven attention
            if parameter.dim() > 1:
                parameter.data.normal_(0, 0.1, generator=random)
        return as_dtype(model, dtype)

    model, exact = tiny().to(device), as_dtype(tiny(), torch.float64)
    here, there = (saliency_prompts(96, 2, 5000, where) for where in (cpu, device))
    prompts, settings = prompts_of(96, 16), settings_for(model)
    means = torch.stack(ours(model, there, model.config.num_hidden_layers))
    rows, full = (
        torch.cat(found, 1)
        for found in (attention_rows(model, prompts, BATCH), eagerly(plain_rows, exact, prompts))
    )
    labels = prompts["label_tokens"][0].to_list()
    isolated = quietly(measure_isolation, model, prompts, settings, 5, BATCH)
    isolated = isolated.sort("example", descending=True)  # as batches are
    by_setting = [
        isolated.filter(positions=setting.positions, variant=setting.variant, side=setting.side)[
            "probabilities"
        ].to_list()
        for setting in (UNTOUCHED, *settings)
    ]
    isolated_full = torch.stack(isolated_in_full(exact, prompts, settings, BATCH))
    short = replace(FIT, epochs=2)
    losses, exact_losses = (
        fit(model, prompts, short)[1],
        fit_in_full(exact, prompts, short, short.epochs)[1],
    )
    return {
        "saliency": relative(means, torch.stack(eagerly(plain, exact, here), -1)),
        "isolation": relative(torch.tensor(by_setting), isolated_full[..., labels].softmax(-1)),
        "prediction": relative(
            predict(model, prompts, BATCH, True), eagerly(predict, exact, prompts, BATCH, False)
        ),
        "kernel": relative(rows, full),
        "fit": relative(torch.tensor([losses]), torch.tensor([exact_losses])),
    }


def cuda_tests(limit: float) -> tuple[bool, str]:
    """Run the tests that need CUDA, without Snakemake; whether none failed, and a summary."""
    if importlib.util.find_spec("pytest") is None:
        return True, "not run, pytest is not installed"
    command = [sys.executable, "-m", "pytest", "--noconftest", "-p", "no:cacheprovider", "-k"]
    try:
        ran = subprocess.run(
            [*command, "on_cuda", *map(str, files_with_cuda_tests())],
            cwd=TESTS.parent,
            capture_output=True,
            text=True,
            timeout=limit,
        )
    except subprocess.TimeoutExpired:
        return True, f"stopped after {limit:.0f} seconds"
    if ran.returncode:
        print(ran.stdout, ran.stderr, sep="\n", file=sys.stderr)
    said = (ran.stdout.strip() or ran.stderr.strip() or "nothing").splitlines()
    return ran.returncode == 0, said[-1].strip("= ")


def files_with_cuda_tests() -> list[Path]:
    """The files of tests marked as needing CUDA, apart from those of whole runs."""
    return [
        path
        for path in sorted(TESTS.rglob("test_*.py"))
        if "whole_run" not in path.parts and "needs a CUDA GPU" in path.read_text("utf-8")
    ]


def run_cases(
    cases: Sequence[Case],
    device: torch.device,
    rates: dict[str, float],
    left: Callable[[], float],
    budget: float,
) -> Iterator[tuple[Case, Row | str]]:
    """The row of every case for which time is left; for the others, the reason for having none."""
    loaded, model = None, None
    known: dict[tuple[str, str], dict[str, float]] = {}
    for case in cases:
        if left() <= 0:
            yield case, "no time was left"
            continue
        dtype, kind = getattr(torch, case.dtype), SHAPES[case.shape][0]
        try:
            if loaded != (case.shape, case.dtype):
                loaded = model = None
                freed(device)
                model = loaded_model(case.shape, dtype, device)
                loaded = case.shape, case.dtype
            if model is None:
                yield case, "the weights do not fit into memory"
            elif case.tokens > model.config.max_position_embeddings:
                yield case, "longer than the model's context"
            elif expected_seconds(case, model, rates[case.dtype], budget) > left():
                yield case, "would have taken longer than the time left"
            else:
                if (kind, case.dtype) not in known:
                    known[kind, case.dtype] = errors(kind, dtype, device)
                error = known[kind, case.dtype][case.measurement]
                yield case, measured(case, model, rates[case.dtype], error, budget)
        except Exception as failure:  # the other cases are still worth measuring
            reason = next(iter(str(failure).splitlines()), "")
            yield case, f"{FAILED} with {type(failure).__name__}: {reason}"


def loaded_model(shape: str, dtype: torch.dtype, device: torch.device) -> PreTrainedModel | None:
    """A model of random weights, made on the device; None if they do not fit."""
    try:
        model: PreTrainedModel = random_model(shape, dtype, device, eager=False)
        return model
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    return None


COLUMNS = (
    "model",
    "format",
    "measurement",
    "tokens",
    "prompts at once",
    "ms per prompt",
    "ms, plain way",
    "times as fast",
    "share of matrix rate",
    "MB per prompt",
    "MB, plain way",
    "error",
)


def line_of(row: Row) -> str:
    """A row of the Markdown table."""

    def written(value: float | None, form: str) -> str:
        return "does not fit" if value is None else format(value, form)

    cells = (
        row.model,
        row.dtype,
        row.measurement,
        str(row.tokens),
        written(row.prompts, "d"),
        written(row.ms_per_prompt, ".1f"),
        written(row.ms_per_prompt_plain, ".1f"),
        "–" if row.times_as_fast is None else f"{row.times_as_fast:.1f}",
        "–" if row.share_of_matrix_rate is None else f"{row.share_of_matrix_rate:.0%}",
        written(row.mb_per_prompt, ".0f"),
        written(row.mb_per_prompt_plain, ".0f"),
        f"{row.error:.1e}",
    )
    return f"| {' | '.join(cells)} |"


def lines_of(left_out: Sequence[tuple[Case, str]]) -> Iterator[str]:
    """The omitted cases as a Markdown list, all lengths of a measurement in one item."""
    together: dict[tuple[str, str, str, str], list[int]] = {}
    for case, why in left_out:
        of = (case.measurement, case.shape, case.dtype, why)
        together.setdefault(of, []).append(case.tokens)
    for (measurement, shape, dtype, why), tokens in together.items():
        lengths = ", ".join(map(str, sorted(tokens)))
        yield f"- {measurement} of {shape} in {dtype} at {lengths} tokens: {why}"


def described(device: torch.device) -> dict[str, Any]:
    """The device and the libraries."""
    about = {"torch": torch.__version__, "transformers": transformers.__version__}
    if device.type != "cuda":
        return {"device": "cpu", "threads": torch.get_num_threads(), **about}
    card = torch.cuda.get_device_properties(device)
    gib = round(card.total_memory / 2**30, 1)
    return {"device": card.name, "memory_gib": gib, "cuda": torch.version.cuda, **about}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument(
        "--shapes", nargs="+", choices=SHAPES, default=["gpt2-xl", "gpt-j-6b", "llama-8b"]
    )
    parser.add_argument(
        "--dtypes", nargs="+", choices=["bfloat16", "float32"], default=["bfloat16", "float32"]
    )
    parser.add_argument("--tokens", type=int, nargs="+", default=TOKENS, help="multiples of 64")
    parser.add_argument("--budget", type=float, default=540.0, help="seconds in all")
    parser.add_argument("--seconds", type=float, default=1.0, help="for one way of one case")
    parser.add_argument("--json", type=Path, help="write all of it here too")
    arguments = parser.parse_args()
    wrong = [tokens for tokens in arguments.tokens if tokens < 2 * QUERY or tokens % QUERY]
    if wrong:
        sys.exit(f"--tokens: {wrong[0]} is not a multiple of {QUERY} from {2 * QUERY} on.")
    if arguments.device == "cuda" and not torch.cuda.is_available():
        sys.exit(
            "No CUDA GPU is seen by torch: run this on a machine with one and a CUDA build of "
            "torch, or try it with --device cpu --shapes tiny --budget 60."
        )
    end = psutil.Process().create_time() + (1 - KEPT_BACK) * arguments.budget

    def left() -> float:
        return end - time.time()

    device = choose_device(arguments.device)  # with deterministic algorithms, as jobs have it
    passed, tests = True, "not run, they need a GPU"
    if device.type == "cuda":
        passed, tests = cuda_tests(left() / 4)
    about = described(device)
    print(", ".join(f"{name} {value}" for name, value in about.items()))
    print(f"CUDA tests: {tests}")
    rates = {
        dtype: matrix_rate(getattr(torch, dtype), device, arguments.seconds)
        for dtype in arguments.dtypes
    }
    for dtype, rate in rates.items():
        print(f"matrix rate in {dtype}: {rate / 1e12:.2f} TFLOP/s")
    print(f"\n| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    rows: list[Row] = []
    left_out: list[tuple[Case, str]] = []
    cases = list(cases_of(arguments.shapes, arguments.dtypes, arguments.tokens))
    for case, came in run_cases(cases, device, rates, left, arguments.seconds):
        if isinstance(came, Row):
            rows.append(came)
            print(line_of(came), flush=True)
        else:
            left_out.append((case, came))
    if left_out:
        print(f"\nLeft out, {len(left_out)} of {len(cases)} cases:\n")
        print(*lines_of(left_out), sep="\n")
    if arguments.json:
        report = {
            **about,
            "cuda_tests": tests,
            "matrix_rate": rates,
            "rows": [asdict(row) for row in rows],
            "left_out": [case._asdict() | {"reason": why} for case, why in left_out],
        }
        arguments.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    if not passed:
        sys.exit("A CUDA test failed; what it says is above.")
    if any(why.startswith(FAILED) for _, why in left_out):
        sys.exit("Some cases failed; they are listed above.")


if __name__ == "__main__":
    main()
