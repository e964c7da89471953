"""Effects of heads' mean outputs in prompts whose label words are permuted (Todd et al. 2024).

The output of a head at the target, averaged over intact prompts with other texts, replaces its
output in a prompt with permuted label words. If the head carries the task, the answer returns.
Classes count alike in the mean, see :func:`means_over_classes`.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

import polars as pl
import torch
from torch import Tensor
from torch.nn.functional import log_softmax
from transformers import PreTrainedModel

from anchorflow.analyses.transplant.measure import donor_words
from anchorflow.arrays import Array
from anchorflow.model.attention_function import Attention, AttentionCall, intervene
from anchorflow.model.batches import Budget
from anchorflow.model.last_tokens import LastTokens, keep_together
from anchorflow.model.layer_kinds import attention_layers
from anchorflow.model.layers import Resumed, keep_outputs, resume
from anchorflow.model.prefix import compute_prefix, shared_token_ids
from anchorflow.model.target_attention import RecordOutputs, ReplaceOutputs, means_over_classes
from anchorflow.model.tokenizer import token_groups
from anchorflow.random_draws import Draw

Ran = TypeVar("Ran")


class _Shifted:
    """The intervention that adds zeros to heads' outputs, with respect to which one derives."""

    def __init__(self) -> None:
        self.zeros: dict[int, Tensor] = {}

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        """The same output, with a graph."""
        output = attention(call)
        self.zeros[call.layer] = torch.zeros_like(output, requires_grad=True)
        return output + self.zeros[call.layer]


def log_odds(logits: Tensor, label: Tensor) -> Tensor:
    """Log-odds of the true label among label words, [B], of their logits [B, C]."""
    logs = log_softmax(logits, -1)
    true = logs.gather(1, label[:, None].to(logs.device))[:, 0]
    others = logs.scatter(1, label[:, None].to(logs.device), -torch.inf)
    odds: Tensor = true - others.logsumexp(-1)
    return odds


def _chances(logits: Tensor, label: Tensor) -> Tensor:
    """Log-odds and probability of the true label among label words, [2, B]."""
    true = logits.softmax(-1).gather(1, label[:, None].to(logits.device))[:, 0]
    return torch.stack([log_odds(logits, label), true])


def function_vectors(
    model: PreTrainedModel,
    prompts: pl.DataFrame,
    measured: pl.DataFrame,
    batch_tokens: int,
    random: Draw,
) -> tuple[list[int], dict[str, tuple[Array, Array | None]]]:
    """Change of the true label's chances by every head's mean output, in permuted prompts.

    Value and control, [B, L, H], are ``function_vector`` (log-odds),
    ``function_vector_probability``, and ``gradient``. They are NaN with a single text, and if no
    label word can take another's place.

    Source: Todd et al. 2024, §2.
    """
    prompt = prompts.row(0, named=True)
    changed = donor_words(prompt, "drawn", random("permuted"))
    budget, token_ids = Budget(batch_tokens), shared_token_ids(prompts)
    intact = keep_together(model, measured, compute_prefix(model, token_ids), budget)
    first_of = torch.tensor(token_groups(prompt["label_tokens"]))
    label = first_of[intact.labels.cpu()]
    with torch.no_grad():
        of_intact, _, _ = run_with_heads(model, intact, LastTokens.logits)
    depth, heads = len(of_intact), of_intact[0].shape[1]
    if changed is None or intact.size < 2:
        nothing = torch.full((intact.size, depth, heads), torch.nan).numpy()
        names = ("function_vector", "function_vector_probability")
        return intact.examples, {
            **dict.fromkeys(names, (nothing, nothing)),
            "gradient": (nothing, None),
        }
    for demonstration, word in changed.items():
        start = prompt["label_positions"][demonstration]
        token_ids[start : start + len(word)] = word
    ids = [token_ids + row[len(token_ids) :] for row in measured["token_ids"].to_list()]
    altered = measured.with_columns(pl.Series("token_ids", ids))
    permuted = keep_together(model, altered, compute_prefix(model, token_ids), budget)
    with torch.no_grad():
        of_permuted, logits, kept = run_with_heads(model, permuted, LastTokens.logits)
        means = [
            {layer: means_over_classes(outputs, label) for layer, outputs in found.items()}
            for found in (of_intact, of_permuted)
        ]
        effects = torch.stack(
            [effects_of_means(model, permuted, mean, kept, label, logits) for mean in means], 1
        )  # [2 measures, 2 kinds of prompts, B, L, H]
    odds, probability = effects.cpu().numpy()
    gradient = _to_first_order(model, permuted, means[0], of_permuted, label)
    return permuted.examples, {
        "function_vector": tuple(odds),
        "function_vector_probability": tuple(probability),
        "gradient": (gradient.cpu().numpy(), None),
    }


def run_with_heads(
    model: PreTrainedModel, tokens: LastTokens, run: Callable[[LastTokens, PreTrainedModel], Ran]
) -> tuple[dict[int, Tensor], Ran, dict[int, Resumed]]:
    """Heads' outputs by layer, [B, H, D], what ``run`` gives, and the layers' outputs."""
    recorded = RecordOutputs()
    depth = len(attention_layers(model.config))
    with keep_outputs(model, range(depth)) as kept, intervene(tokens, recorded):
        found = run(tokens, model)
    return recorded.found, found, kept


def effects_of_means(
    model: PreTrainedModel,
    tokens: LastTokens,
    mean: Mapping[int, Tensor],
    kept: Mapping[int, Resumed],
    label: Tensor,
    logits: Tensor,
) -> Tensor:
    """What each head's mean output, in place of its own, changes in each prompt, [2, B, L, H].

    The two are log-odds and probability of the true ``label``, [B]. ``mean`` has outputs by layer,
    [B, H, D], and ``logits``, [B, C], are those before.
    """
    heads = mean[0].shape[1]
    before = _chances(logits, label)
    changes = [
        _chances(_replaced(model, tokens, mean, kept, layer, head), label) - before
        for layer in range(len(mean))
        for head in range(heads)
    ]
    effects: Tensor = torch.stack(changes, -1).unflatten(-1, (len(mean), heads))
    return effects


def _replaced(
    model: PreTrainedModel,
    tokens: LastTokens,
    mean: Mapping[int, Tensor],
    kept: Mapping[int, Resumed],
    layer: int,
    head: int,
) -> Tensor:
    """Logits of label words with one head's output replaced; layers below are not run again."""
    replaced = ReplaceOutputs(mean, {layer: [head]})
    if layer == 0:
        with intervene(tokens, replaced):
            return tokens.logits(model)
    with resume(model, kept[layer - 1]), intervene(tokens, replaced):
        return tokens.logits(model)


def _to_first_order(
    model: PreTrainedModel,
    tokens: LastTokens,
    mean: dict[int, Tensor],
    outputs: dict[int, Tensor],
    label: Tensor,
) -> Tensor:
    """Gradient of the log-odds times the change of every head's output, [B, L, H]."""
    shifted = _Shifted()
    with torch.enable_grad(), intervene(tokens, shifted):
        log_odds(tokens.logits(model), label).sum().backward()
    return torch.stack(
        [
            (zeros.grad[:, :, -1] * (mean[layer] - outputs[layer])).sum(-1).cpu()  # type: ignore
            for layer, zeros in sorted(shifted.zeros.items())
        ],
        1,
    )
