"""Outputs of heads at the target, partitioned by demonstration, and composed of single ones.

Given its weights, a head's output a = Σ_j α_j v_j is a sum over tokens, hence over demonstrations.
Weights are e_j / Σ_i e_i, with e the exponentials of the scores. Let a demonstration alone before
the query have the share s_d of the weights and the part p_d of the output. If no score and no value
depends on the other demonstrations, then its tokens weigh r_d = s_d / (1 - s_d) times as much as
the rest, also before the query with all demonstrations, where its part is therefore

    p_d / (1 - s_d) / (1 + Σ_k r_k).

Nothing is fitted. After Wang et al. 2026 (arXiv 2605.16591), who fit weights to sums.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import polars as pl
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, pad
from transformers import PreTrainedModel

from anchorflow.analyses.additivity import ADDITIVITY
from anchorflow.analyses.heads.function_vectors import log_odds
from anchorflow.analyses.transplant.measure import donor_words
from anchorflow.config.cell_names import task_of
from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import (
    Attention,
    AttentionCall,
    attention_rows,
    intervene,
    mixed_rows,
)
from anchorflow.model.batches import Budget, among, runnable
from anchorflow.model.cell import Cell
from anchorflow.model.last_tokens import LastTokens, keep_together
from anchorflow.model.layer_kinds import runs_again
from anchorflow.model.logits import check_finite
from anchorflow.model.prefix import compute_prefix, shared_token_ids
from anchorflow.model.size import Cost, Prompts
from anchorflow.model.target_attention import ReplaceOutputs
from anchorflow.model.tokenizer import token_groups
from anchorflow.random_draws import generator
from anchorflow.schemas.frames import frame_schema, keyed

log = logging.getLogger(__name__)

_SMALLEST = 1e-6  # share of the weights outside a demonstration, by which parts are divided
_RUNS = 16  # demonstrations that a cost is estimated for; their number is not known beforehand


class RecordParts:
    """The intervention that partitions heads' outputs at the last token.

    ``members``, [S, P], is 1 where one of the first P keys belongs to one of S groups, else 0.
    """

    def __init__(self, members: Tensor) -> None:
        self._members = members
        self.outputs: dict[int, Tensor] = {}  # [B, H, D]
        self.parts: dict[int, Tensor] = {}  # Σ_j α_j v_j of each group, [B, H, S, D]
        self.shares: dict[int, Tensor] = {}  # Σ_j α_j, [B, H, S]

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        """Record them; the layer's output is unchanged."""
        output = attention(call)
        last = torch.full((len(output), 1), output.shape[2] - 1, device=output.device)
        weights = attention_rows(call, last)  # [B, H, 1, K]
        members = self._members.to(weights)
        grouped = weights * pad(members, (0, weights.shape[3] - members.shape[1]))
        self.parts[call.layer] = mixed_rows(call, grouped).float()
        self.shares[call.layer] = grouped.sum(-1)
        self.outputs[call.layer] = output[:, :, -1].float()
        return output


class Composed(NamedTuple):
    """The outputs of a layer's heads, composed of single demonstrations: [B, H, D]."""

    demonstrations: Tensor
    rest: Tensor


def composed(parts: Tensor, shares: Tensor, outputs: Tensor) -> Composed:
    """What follows from N prompts with one demonstration each; see the module.

    ``parts`` and ``outputs`` are [N, B, H, D], ``shares`` [N, B, H]. The rest is that of single
    prompts, on average.
    """
    left = (1 - shares).clamp(min=_SMALLEST)[..., None]
    whole = 1 + (shares[..., None] / left).sum(0)
    rest = (outputs - parts) / left
    return Composed((parts / left).sum(0) / whole, rest.mean(0) / whole)


def cost(prompts: Prompts, spec: Mapping[str, Any], _: int) -> Cost:
    """The whole prompts, and all texts after every single demonstration, with their own words."""
    times = 2 if "deranged" in spec["controls"] else 1
    asked = (1 + times * _RUNS) * prompts.asked
    steps = 1 + times * (1 + _RUNS)
    return Cost((1 + times) * prompts.demonstrations + asked, steps=steps, copies=2)


class _Cell:
    """Prompts of one model, task, and seed: whole, and with each demonstration alone."""

    def __init__(
        self, model: PreTrainedModel, prompts: pl.DataFrame, measured: pl.DataFrame, budget: Budget
    ) -> None:
        self._model, self._measured, self._budget = model, measured, budget
        self.prompt = prompts.row(0, named=True)
        self.token_ids = shared_token_ids(prompts)
        self._shared = len(self.token_ids)
        starts = self.prompt["demonstration_starts"]
        merged = self.prompt["query_start"] - self._shared  # last tokens, which queries have
        ends = [*(start - merged for start in starts[1:]), self._shared]
        self._spans = [*zip(starts, ends, strict=True)]
        if max(self.prompt["label_ends"]) > self._shared:
            raise InputError(
                f"tasks.{task_of(self.prompt['task'])}.template: its queries begin differently "
                "from one another, so that demonstrations are not the same before all of them; "
                "begin it with a word."
            )

    def whole(self) -> tuple[LastTokens, RecordParts, Tensor]:
        """Last tokens, their outputs by demonstration, and logits of label words."""
        return self._run(self.token_ids, self._spans)

    def alone(self, token_ids: Sequence[int]) -> tuple[dict[int, Composed], Tensor]:
        """Outputs by layer composed of single demonstrations, and their logits, [N, B, C]."""
        first = self._spans[0][0]
        runs, logits = [], []
        for start, end in self._spans:
            single = [*token_ids[:first], *token_ids[start:end]]
            _, recorded, of_run = self._run(single, [(first, len(single))])
            runs.append(recorded)
            logits.append(of_run)

        def of_layer(layer: int) -> Composed:
            parts = torch.stack([run.parts[layer][:, :, 0] for run in runs])
            shares = torch.stack([run.shares[layer][:, :, 0] for run in runs])
            return composed(parts, shares, torch.stack([run.outputs[layer] for run in runs]))

        return {layer: of_layer(layer) for layer in sorted(runs[0].parts)}, torch.stack(logits)

    def _run(
        self, before: Sequence[int], spans: Sequence[tuple[int, int]]
    ) -> tuple[LastTokens, RecordParts, Tensor]:
        """All texts after these tokens, in place of those that they share."""
        shorter = self._shared - len(before)
        ids = [[*before, *row[self._shared :]] for row in self._measured["token_ids"].to_list()]
        rows = self._measured.with_columns(
            pl.Series("token_ids", ids, dtype=self._measured.schema["token_ids"]),
            tokens=pl.col("tokens") - shorter,
            target_position=pl.col("target_position") - shorter,
        )
        tokens = keep_together(self._model, rows, compute_prefix(self._model, before), self._budget)
        members = torch.zeros(len(spans), len(before))
        for group, (start, end) in enumerate(spans):
            members[group, max(1, start) : end] = 1  # without the prompt's first token
        recorded = RecordParts(members)
        with intervene(tokens, recorded):
            logits = tokens.logits(self._model)
        check_finite(logits, tokens.examples)
        return tokens, recorded, logits


@torch.no_grad()
def measure_additivity(
    model: PreTrainedModel,
    prompts: pl.DataFrame,
    controls: Sequence[str],
    batch_tokens: int,
    examples: Collection[int] | None = None,
) -> pl.DataFrame:
    """How well single demonstrations compose all of them, for prompts with fixed demonstrations."""
    chosen = runnable(prompts, "fixed")
    measured = among(chosen, examples)
    empty = pl.DataFrame(schema=frame_schema(ADDITIVITY))
    if measured.is_empty():
        return empty
    if runs_again(model.config):
        raise InputError(
            "additivity: this model carries a state from token to token, beside attention, so that "
            "its answers are not those of heads' outputs; leave additivity.controls empty for it."
        )
    of_cell = _Cell(model, chosen, measured, Budget(batch_tokens))
    prompt, task = of_cell.prompt, task_of(of_cell.prompt["task"])
    if len(prompt["demonstration_labels"]) < 2:
        log.warning("No additivity: task %s has a single demonstration, which is the whole.", task)
        return empty
    tokens, recorded, logits = of_cell.whole()
    first_of = torch.tensor(token_groups(prompt["label_tokens"]))
    label = first_of[tokens.labels.cpu()].to(logits.device)
    own, singles = of_cell.alone(of_cell.token_ids)
    kinds = {"composed": own}
    if "deranged" in controls:
        words = donor_words(prompt, "permuted", generator(prompt["seed"], task, "additivity"))
        if words is None:
            log.warning(
                "No deranged demonstrations: no two label words of task %s have the same number of "
                "tokens, so none can replace another (additivity.controls).",
                task,
            )
        else:
            demonstrations = len(prompt["demonstration_labels"])
            if len(words) < demonstrations:
                log.warning(
                    "%d of %d demonstrations of task %s keep their label words in deranged ones, "
                    "as no other word has as many tokens (additivity.controls).",
                    demonstrations - len(words),
                    demonstrations,
                    task,
                )
            altered = list(of_cell.token_ids)
            for demonstration, word in words.items():
                start = prompt["label_positions"][demonstration]
                altered[start : start + len(word)] = word
            kinds["deranged"], _ = of_cell.alone(altered)
    parts = []

    def add(kind: str, layer: int, **values: Tensor) -> None:
        rows = pl.DataFrame({"example": tokens.examples, "kind": kind, "layer": layer})
        columns = {name: pl.Series(of.double().tolist()) for name, of in values.items()}
        parts.append(rows.with_columns(**columns))

    def answer(kind: str, *runs: Tensor) -> None:
        odds = torch.stack([log_odds(of_run, label) for of_run in runs]).mean(0)
        right = torch.stack([(of_run.argmax(-1) == label).float() for of_run in runs]).mean(0)
        add(kind, -1, log_odds=odds, accuracy=right)

    answer("whole", logits)
    answer("one", *singles)
    every = {layer: range(of.shape[1]) for layer, of in recorded.outputs.items()}
    for kind, by_layer in kinds.items():
        instead = {layer: of.demonstrations + of.rest for layer, of in by_layer.items()}
        with intervene(tokens, ReplaceOutputs(instead, every)):
            answer(kind, tokens.logits(model))
    if "other_query" in controls and tokens.size > 1:
        kinds["other_query"] = {
            layer: Composed(*(part.roll(-1, 0) for part in of)) for layer, of in own.items()
        }
    for kind, by_layer in kinds.items():
        for layer, of in by_layer.items():
            add(kind, layer, **_likeness(recorded.parts[layer].sum(2), of.demonstrations))
    keys = measured.select("model", "task", "seed").row(0, named=True)
    found = pl.concat(parts, how="diagonal")
    return keyed(found, keys, ADDITIVITY).sort("example", "kind", "layer")


def _likeness(whole: Tensor, found: Tensor) -> dict[str, Tensor]:
    """Share explained and cosine, [B], over all heads of a layer, [B, H, D]."""
    whole, found = whole.flatten(1), found.flatten(1)
    left = (whole - found).square().sum(1) / whole.square().sum(1)
    return {"explained": 1 - left, "cosine": cosine_similarity(whole, found, -1)}


def measure(cell: Cell) -> None:
    controls = cell.spec["controls"]
    cell.measure(ADDITIVITY, cost, partial(measure_additivity, controls=controls))
