r"""Attention to many demonstrations, and predictions with fewer, compared with the plain way.

Both ways run in this process, on the same weights and random prompts. The plain way runs every
prompt in full under transformers' eager attention: with ``output_attentions``, which keeps every
matrix, for attention; and once more for each number of demonstrations. Ours runs the demonstrations
once, records the target's attention row, and uses the first part of the same keys and values for
fewer demonstrations.

    python benchmarks/kernel.py --model results/models/gemma-3-270m
    python benchmarks/kernel.py --shape gpt2-xl --device cuda --dtype bfloat16
"""

import argparse
from collections.abc import Sequence
from functools import partial

import polars as pl
import torch
from models import as_dtype, model_of, model_parser, random_model, seconds
from prefix import random_prompts
from torch import Tensor
from transformers import PreTrainedModel

from anchorflow.analyses.kernel.measure import predict_with_first
from anchorflow.model.batches import Budget, batches_of
from anchorflow.model.logits import target_logits
from anchorflow.model.opening import open_model
from anchorflow.model.prefix import compute_prefix, shared_token_ids
from anchorflow.model.target_attention import rows_and_logits


def eager_model(arguments: argparse.Namespace) -> PreTrainedModel:
    """The same model with transformers' eager attention."""
    device, dtype = torch.device(arguments.device), getattr(torch, arguments.dtype)
    if arguments.shape:
        model: PreTrainedModel = random_model(arguments.shape, dtype, device, eager=True)
        return model
    return as_dtype(open_model(arguments.model, device, eager=True), dtype)


def with_first(prompts: pl.DataFrame, tokens: int) -> pl.DataFrame:
    """The prompts with only the first ``tokens`` tokens of their demonstrations."""
    gone = prompts["query_start"][0] - tokens
    ids = [row[:tokens] + row[tokens + gone :] for row in prompts["token_ids"].to_list()]
    return prompts.with_columns(
        pl.Series("token_ids", ids), pl.col("tokens", "target_position", "query_start") - gone
    )


@torch.no_grad()
def attention_rows(model: PreTrainedModel, prompts: pl.DataFrame, budget: int) -> list[Tensor]:
    """Attention from each target [L, B, H, T], with the demonstrations run once."""
    prefix = compute_prefix(model, shared_token_ids(prompts))
    batches = batches_of(prompts, budget, model.device, prefix.tokens)
    return [rows_and_logits(model, batch, prefix)[0] for batch in batches]


@torch.no_grad()
def plain_rows(model: PreTrainedModel, prompts: pl.DataFrame) -> list[Tensor]:
    """The same from full prompts, one at a time."""
    rows = []
    for batch in batches_of(prompts, 1, model.device):
        output = model(batch.input_ids, output_attentions=True, use_cache=False, logits_to_keep=1)
        rows.append(torch.stack([a[:, :, -1] for a in output.attentions]).float().cpu())
    return rows


@torch.no_grad()
def predict(
    model: PreTrainedModel, fewer: Sequence[pl.DataFrame], whole: pl.DataFrame, budget: int
) -> list[Tensor]:
    """Label probabilities [examples, C] with fewer demonstrations, from one run of all of them."""
    ids = whole["token_ids"][0].to_list()
    prefix = compute_prefix(model, shared_token_ids(whole))
    keys = {"task": "random", "seed": 0}
    tables = [
        predict_with_first(model, prefix, ids, prompts, Budget(budget), keys) for prompts in fewer
    ]
    return [torch.tensor(rows["probabilities"].to_list()) for rows in tables]


@torch.no_grad()
def plain_predict(
    model: PreTrainedModel, fewer: Sequence[pl.DataFrame], budget: int
) -> list[Tensor]:
    """The same from full prompts."""
    probabilities = []
    for prompts in fewer:
        batches = batches_of(prompts, budget, model.device)
        logits = [target_logits(model, batch)[:, batch.label_tokens] for batch in batches]
        probabilities.append(torch.cat(logits).softmax(-1).cpu())
    return probabilities


def compare(model: PreTrainedModel, eager: PreTrainedModel, arguments: argparse.Namespace) -> None:
    """Print one line per prompt length."""
    device, budget = model.device, arguments.batch_tokens
    print(
        "demonstration/query tokens | attention: times as fast | fewer: times as fast, difference"
    )
    for tokens in arguments.tokens:
        prompts = random_prompts(
            arguments.query, tokens // arguments.query + 1, arguments.examples
        ).with_columns(pl.lit("kernel").alias("demonstrations"))
        shown = prompts["query_start"][0]
        fewer = [with_first(prompts, shown // 2**power) for power in (3, 2, 1, 0)]
        ways = {
            "rows": partial(attention_rows, model, prompts, budget),
            "plain rows": partial(plain_rows, eager, prompts),
            "fewer": partial(predict, model, fewer, prompts, budget),
            "plain fewer": partial(plain_predict, eager, fewer, budget),
        }
        pairs = zip(ways["fewer"](), ways["plain fewer"](), strict=True)
        difference = max(float((a - b).abs().max() / b.abs().max()) for a, b in pairs)
        time = {way: seconds(run, device, arguments.seconds) for way, run in ways.items()}
        print(
            f"{shown:6d}/{arguments.query:3d} | {time['plain rows'] / time['rows']:5.1f} | "
            f"{time['plain fewer'] / time['fewer']:5.1f} {difference:8.1e}",
            flush=True,
        )


def main() -> None:
    parser = model_parser(__doc__.splitlines()[0])
    parser.add_argument("--query", type=int, default=40, help="tokens of a query")
    parser.add_argument("--tokens", type=int, nargs="+", default=[256, 512, 1024])
    parser.add_argument("--examples", type=int, default=12)
    parser.add_argument("--batch-tokens", type=int, default=512)
    parser.add_argument("--seconds", type=float, default=1.0, help="per measurement")
    arguments = parser.parse_args()
    compare(model_of(arguments), eager_model(arguments), arguments)


if __name__ == "__main__":
    main()
