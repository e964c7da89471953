r"""Compression with one shared prefix, compared with full prompts for every set of kept tokens.

Both ways run in this process, on the same model, random prompts, and random sets of kept tokens.
The plain way runs every prompt in full for every set, with all other tokens hidden from the query.
Ours runs the demonstrations once and gathers keys and values for each set.

    python benchmarks/compression.py --model results/models/gemma-3-270m
    python benchmarks/compression.py --shape gpt2-xl --device cuda --dtype bfloat16
"""

import argparse
from functools import partial

import polars as pl
import torch
from models import model_of, model_parser, seconds
from prefix import random_prompts
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import PreTrainedModel

from anchorflow.analyses.compression.measure import Setting, compress
from anchorflow.analyses.compression.observations import observe
from anchorflow.kept_positions import METHODS, Demonstrations
from anchorflow.model.attention_function import Attention, AttentionCall, intervene
from anchorflow.model.batches import batches_of
from anchorflow.model.last_tokens import keep_all_but_last
from anchorflow.model.logits import target_logits
from anchorflow.model.prefix import shared_token_ids


class Hide:
    """The intervention that hides some demonstration tokens from the query, in full prompts."""

    def __init__(self, kept: Tensor, shared: int) -> None:
        self._kept, self._shared = kept, shared

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        """Attention with a mask, for prompts shorter than any sliding window."""
        visible = ~call.hidden(0, call.keys)[0, 0]
        gone = torch.ones(call.keys, dtype=torch.bool, device=visible.device)
        gone[self._shared :] = False
        gone[self._kept] = False
        visible[self._shared :, gone] = False
        return scaled_dot_product_attention(
            call.query,
            call.key,
            call.value,
            attn_mask=visible[None, None],
            scale=call.scaling,
            enable_gqa=call.query.shape[1] != call.key.shape[1],
        )


def sets_of(draws: int) -> list[Setting]:
    """Settings with random tokens in place of the label words, one per draw."""
    return [Setting("hidden_random", draw=draw) for draw in range(draws)]


@torch.no_grad()
def shared(model: PreTrainedModel, prompts: pl.DataFrame, draws: int, budget: int) -> list[Tensor]:
    """Logits [examples, vocabulary] of every set, with the demonstrations run once."""
    shown = observe(model, shared_token_ids(prompts), prompts.row(0, named=True))
    logits = []
    for setting in sets_of(draws):
        cache = compress(model, shown, setting)
        parts = []
        for batch in batches_of(
            prompts, budget, model.device, cache.prefix.tokens, cache.first_position
        ):
            tokens = keep_all_but_last(model, batch, cache.prefix)
            with intervene(tokens):
                parts.append(tokens.vocabulary_logits(model))
        logits.append(torch.cat(parts))
    return logits


@torch.no_grad()
def again(
    model: PreTrainedModel, prompts: pl.DataFrame, draws: int, budget: int, shown: Demonstrations
) -> list[Tensor]:
    """The same from full prompts, run again for every set."""
    logits = []
    for setting in sets_of(draws):
        kept = METHODS[setting.method](shown, 0, setting.draw)[0][0]
        hide = Hide(kept.to(model.device), shown.prefix.tokens)
        with intervene(hide):
            batches = batches_of(prompts, budget, model.device)
            logits.append(torch.cat([target_logits(model, batch) for batch in batches]))
    return logits


def compare(model: PreTrainedModel, arguments: argparse.Namespace) -> None:
    """Print one line per prompt length."""
    device, budget, draws = model.device, arguments.batch_tokens, arguments.draws
    print("prompt/query tokens, sets | seconds: whole prompts, shared | times as fast | difference")
    for times in arguments.times:
        prompts = random_prompts(arguments.query, times, arguments.examples)
        shown = observe(model, shared_token_ids(prompts), prompts.row(0, named=True))
        pairs = zip(
            shared(model, prompts, 2, budget), again(model, prompts, 2, budget, shown), strict=True
        )
        difference = max(float((a - b).abs().max() / b.abs().max()) for a, b in pairs)
        ours = seconds(partial(shared, model, prompts, draws, budget), device, arguments.seconds)
        plain = seconds(
            partial(again, model, prompts, draws, budget, shown), device, arguments.seconds
        )
        print(
            f"{arguments.query * times:6d}/{arguments.query:3d} {draws:3d} | {plain:7.1f} "
            f"{ours:7.1f} | {plain / ours:5.1f} | {difference:8.1e}",
            flush=True,
        )


def main() -> None:
    parser = model_parser(__doc__.splitlines()[0])
    parser.add_argument("--query", type=int, default=40, help="tokens of a query")
    parser.add_argument("--times", type=int, nargs="+", default=[3, 5, 10])
    parser.add_argument("--examples", type=int, default=16)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--batch-tokens", type=int, default=512)
    parser.add_argument("--seconds", type=float, default=1.0, help="per measurement")
    arguments = parser.parse_args()
    compare(model_of(arguments), arguments)


if __name__ == "__main__":
    main()
