r"""Fitting β with one token per text compared with full prompts, by prompt length and batch size.

Both ways run in this process, on the same model, random texts, and order of steps. The plain way
runs every prompt in full, forward and backward, in every step, with the same attention function.
Ours first computes keys and values, included in its time, and then runs one token per text. All
epochs of the plain way cost the same, so ``--plain-epochs`` of them are timed and scaled up. The
last column gives the time of choosing between two learning rates, relative to a single fit: for
each rate, two fits to halves of the texts and one to all of them. One after the other, these would
cost four times as much as one fit.

    python benchmarks/reweighting.py --model results/models/gemma-3-270m
    python benchmarks/reweighting.py --shape gpt2-xl --device cuda --dtype bfloat16
"""

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import polars as pl
import torch
from models import model_of, model_parser
from prefix import random_prompts
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from anchorflow.analyses.reweighting.measure import label_probabilities
from anchorflow.model.attention_function import intervene
from anchorflow.model.batches import Batch, Budget, batches_of
from anchorflow.model.beta_fit import Descent, Reweight, fit_reweighting
from anchorflow.model.last_tokens import LastTokens, keep_together
from anchorflow.model.logits import label_logits
from anchorflow.model.prefix import compute_prefix, shared_token_ids


def seconds_of(run: Callable[[], object], device: torch.device) -> float:
    """Wall time of one run."""
    start = time.perf_counter()
    run()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def keep(model: PreTrainedModel, prompts: pl.DataFrame) -> LastTokens:
    """Keys and values of all tokens but the last of each prompt."""
    prefix = compute_prefix(model, shared_token_ids(prompts))
    return keep_together(model, prompts, prefix, Budget(1024))


def fit(
    model: PreTrainedModel, prompts: pl.DataFrame, descent: Descent
) -> tuple[Tensor, list[float]]:
    """β and losses with one token per text."""
    beta, steps = descent.fit(model, keep(model, prompts), np.random.default_rng(0))
    return beta, [step.loss for step in steps]


def fit_in_full(
    model: PreTrainedModel, prompts: pl.DataFrame, descent: Descent, epochs: int
) -> tuple[Tensor, list[float]]:
    """The first ``epochs`` of the same fit, with full prompts in every step."""
    (whole,) = batches_of(prompts, 10**9, model.device)
    config = model.config.get_text_config()
    shape = (config.num_hidden_layers, config.num_attention_heads, whole.label_positions.shape[1])
    beta = nn.Parameter(torch.zeros(shape, device=model.device))
    optimizer = torch.optim.Adam([beta], lr=descent.learning_rate)
    random, losses = np.random.default_rng(0), []
    for _ in range(epochs):
        order = random.permutation(whole.size)
        size = descent.batch_size or whole.size
        for start in range(0, whole.size, size):
            some = rows_of(whole, order[start : start + size])
            with intervene(Reweight(beta, some.target_rows, some.label_words)):
                loss = cross_entropy(label_logits(model, some), some.labels)
                optimizer.zero_grad()
                loss.backward()
            losses.append(loss.item())
            optimizer.step()
    return beta.detach().cpu(), losses


def rows_of(batch: Batch, rows: np.ndarray) -> Batch:
    """Some prompts of a batch."""
    at = torch.tensor(rows, device=batch.labels.device)
    return Batch(
        examples=[batch.examples[row] for row in rows],
        label_tokens=batch.label_tokens,
        **{
            name: getattr(batch, name)[at]
            for name in (
                "input_ids",
                "lengths",
                "target_positions",
                "label_positions",
                "label_ends",
                "demonstration_starts",
                "demonstration_ends",
                "demonstration_labels",
                "labels",
            )
        },
    )


@torch.no_grad()
def evaluate_in_full(model: PreTrainedModel, prompts: pl.DataFrame, beta: Tensor) -> None:
    """Predict with β from full prompts."""
    for batch in batches_of(prompts, 1024, model.device):
        with intervene(Reweight(beta, batch.target_rows, batch.label_words)):
            label_logits(model, batch).softmax(-1)


def compare(model: PreTrainedModel, arguments: argparse.Namespace) -> None:
    """Print one line per prompt length and batch size."""
    device = model.device
    print(
        "tokens, texts in a step | ms per step: full, one token | times as fast: a step, the whole "
        "fit, evaluating another β | largest difference of the first losses | choosing a rate, as "
        "many times one fit"
    )
    for times in arguments.times:
        prompts = random_prompts(arguments.query, times, arguments.texts)
        labels = pl.Series("label", [i % 4 for i in range(len(prompts))])
        prompts = prompts.with_columns(labels)
        for batch_size in arguments.batch_sizes:
            descent = Descent(0.1, 10, batch_size)
            short = Descent(0.1, arguments.plain_epochs, batch_size)
            fit(model, prompts, Descent(0.1, 1, batch_size))  # warm-up
            kept = keep(model, prompts)
            beta, losses = fit(model, prompts, descent)
            _, plain = fit_in_full(model, prompts, descent, arguments.plain_epochs)
            steps = len(plain)
            spec = {"learning_rates": [0.1, 0.01], "epochs": 10, "batch_size": batch_size}
            difference = max(abs(a - b) / b for a, b in zip(losses, plain, strict=False))
            of = {
                "fit": partial(fit, model, prompts, descent),
                "steps": partial(short.fit, model, kept, np.random.default_rng(0)),
                "full": partial(fit_in_full, model, prompts, descent, arguments.plain_epochs),
                "one": partial(descent.fit, model, kept, np.random.default_rng(0)),
                "chosen": partial(fit_reweighting, model, [kept], spec, 0, "random"),
                "evaluate": partial(label_probabilities, model, kept, beta),
                "evaluate in full": partial(evaluate_in_full, model, prompts, beta),
            }
            took = {name: seconds_of(run, device) for name, run in of.items()}
            whole_fit = took["full"] * descent.epochs / arguments.plain_epochs
            print(
                f"{arguments.query * times:5d} {batch_size or arguments.texts:3d} | "
                f"{1000 * took['full'] / steps:8.1f} {1000 * took['steps'] / steps:7.1f} | "
                f"{took['full'] / took['steps']:6.1f} {whole_fit / took['fit']:6.1f} "
                f"{took['evaluate in full'] / took['evaluate']:6.1f} | {difference:8.1e} | "
                f"{took['chosen'] / took['one']:5.2f}",
                flush=True,
            )


def main() -> None:
    parser = model_parser(__doc__.splitlines()[0])
    parser.add_argument("--query", type=int, default=40, help="tokens of a text with its template")
    parser.add_argument("--times", type=int, nargs="+", default=[3, 5, 10, 20])
    parser.add_argument("--texts", type=int, default=16, help="training texts")
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[1, 4, 0])
    parser.add_argument("--plain-epochs", type=int, default=1)
    arguments = parser.parse_args()
    compare(model_of(arguments), arguments)


if __name__ == "__main__":
    main()
