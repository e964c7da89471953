r"""The shared prefix compared with full prompts: time, tokens saved, memory per additional example.

Both ways run in this process, on the same model and the same random prompts, with the same
attention function and budget of tokens per batch; they differ only in the prefix. A prompt is 3, 5,
or 10 times as long as its query. Operations outside attention are saved in proportion to the tokens
that are not run.

    python benchmarks/prefix.py --model results/models/gemma-3-270m
    python benchmarks/prefix.py --shape gpt2-xl --device cuda --dtype bfloat16
"""

import argparse
from collections.abc import Sequence
from functools import partial

import polars as pl
import torch
from models import model_of, model_parser, seconds
from saliency import peak, reset_peak
from torch import Tensor
from transformers import PreTrainedModel

from anchorflow.analyses.isolation.measure import (
    Isolate,
    Setting,
    isolated_positions,
    measure_isolation,
    settings_of,
)
from anchorflow.model.attention_function import intervene
from anchorflow.model.batches import batches_of
from anchorflow.model.logits import target_logits
from anchorflow.model.prefix import compute_prefix, shared_token_ids

DEMONSTRATIONS = 4


def random_prompts(query: int, times: int, examples: int) -> pl.DataFrame:
    """Prompts ``times`` as long as their query, with fixed random demonstrations."""
    random = torch.Generator().manual_seed(query * times)
    each = query * (times - 1) // DEMONSTRATIONS
    prefix = each * DEMONSTRATIONS
    shared = torch.randint(5000, (prefix,), generator=random).tolist()
    own = torch.randint(5000, (examples, query), generator=random)
    own[:, 0] = torch.arange(examples)
    starts = list(range(0, prefix, each))
    fixed = {
        "model": "random",
        "task": "random",
        "seed": 0,
        "demonstrations": "fixed",
        "label": 0,
        "tokens": prefix + query,
        "skipped": None,
        "label_positions": [start + each - 2 for start in starts],
        "label_ends": [start + each - 1 for start in starts],
        "target_position": prefix + query - 1,
        "format_positions": [start + each - 1 for start in starts],
        "demonstration_starts": starts,
        "demonstration_ends": [start + each for start in starts],
        "query_start": prefix,
        "instruction_end": None,
        "field_names": ["text"],
        "field_starts": [*starts, prefix],
        "field_ends": [*(start + each - 2 for start in starts), prefix + query],
        "demonstration_labels": list(range(DEMONSTRATIONS)),
        "label_tokens": [11, 23, 47, 95],
    }
    rows = [{**fixed, "example": i, "token_ids": shared + own[i].tolist()} for i in range(examples)]
    return pl.DataFrame(rows, schema_overrides={"skipped": pl.String, "instruction_end": pl.Int32})


def predict(model: PreTrainedModel, prompts: pl.DataFrame, budget: int, shared: bool) -> Tensor:
    """Next-token logits of all prompts, with or without the shared prefix."""
    if not shared:
        return torch.cat(
            [target_logits(model, b) for b in batches_of(prompts, budget, model.device)]
        )
    prefix = compute_prefix(model, shared_token_ids(prompts))
    batches = batches_of(prompts, budget, model.device, prefix.tokens)
    with intervene(prefix):
        return torch.cat([target_logits(model, batch) for batch in batches])


def isolated_in_full(
    model: PreTrainedModel, prompts: pl.DataFrame, settings: Sequence[Setting], budget: int
) -> list[Tensor]:
    """Next-token logits as in ``measure_isolation``, unmodified and per setting, in full."""
    depth = model.config.get_text_config().num_hidden_layers
    logits = [predict(model, prompts, budget, shared=False)]
    for setting in settings:
        positions = torch.tensor(isolated_positions(setting, prompts.row(0, named=True), 10**9))
        with intervene(Isolate(positions, setting.isolated_layers(depth), setting.variant)):
            logits.append(predict(model, prompts, budget, shared=False))
    return logits


def compare(model: PreTrainedModel, arguments: argparse.Namespace) -> None:
    """Print one line per prompt length."""
    device, budget = model.device, arguments.batch_tokens
    depth = model.config.get_text_config().num_hidden_layers
    settings = settings_of(["mask"], [1, 5], 1, depth, "this model")
    print(
        "prompt/query tokens | predictions: times as fast, tokens saved, difference | "
        "isolation: times as fast | MB per further example: shared, full"
    )
    for times in arguments.times:
        prompts = random_prompts(arguments.query, times, arguments.examples)
        tokens = arguments.query * times
        logits = {way: predict(model, prompts, budget, way) for way in (True, False)}
        difference = (logits[True] - logits[False]).abs().max() / logits[False].abs().max()
        ways = {
            "shared": partial(predict, model, prompts, budget, True),
            "full": partial(predict, model, prompts, budget, False),
            "isolated": partial(measure_isolation, model, prompts, settings, 5, budget),
            "isolated, full": partial(isolated_in_full, model, prompts, settings, budget),
        }
        time = {way: seconds(run, device, arguments.seconds) for way, run in ways.items()}
        run_tokens = tokens - arguments.query + arguments.examples * arguments.query
        more = random_prompts(arguments.query, times, max(72, arguments.examples))
        memory = [memory_per_example(model, more, way) for way in (True, False)]
        print(
            f"{tokens:10d}/{arguments.query:3d} | {time['full'] / time['shared']:5.1f} "
            f"{arguments.examples * tokens / run_tokens:5.1f} {difference:8.1e} | "
            f"{time['isolated, full'] / time['isolated']:5.1f} | {memory[0]:6.2f} {memory[1]:6.2f}",
            flush=True,
        )


def memory_per_example(model: PreTrainedModel, prompts: pl.DataFrame, shared: bool) -> float:
    """Peak memory of one batch in MB, per example beyond eight, excluding the prefix."""
    prefix = compute_prefix(model, shared_token_ids(prompts)) if shared else None
    peaks = []
    for examples in (8, len(prompts)):
        before = 0 if prefix is None else prefix.tokens
        (batch,) = batches_of(prompts[:examples], 10**9, model.device, before)
        with intervene(*([] if prefix is None else [prefix])):
            target_logits(model, batch)
            start = reset_peak(model.device)
            target_logits(model, batch)
            peaks.append(peak(model.device) - start)
    return (peaks[1] - peaks[0]) / (len(prompts) - 8)


def main() -> None:
    parser = model_parser(__doc__.splitlines()[0])
    parser.add_argument("--query", type=int, default=40, help="tokens of a query")
    parser.add_argument("--times", type=int, nargs="+", default=[3, 5, 10])
    parser.add_argument("--examples", type=int, default=40)
    parser.add_argument("--batch-tokens", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=10.0, help="per measurement")
    arguments = parser.parse_args()
    compare(model_of(arguments), arguments)


if __name__ == "__main__":
    main()
