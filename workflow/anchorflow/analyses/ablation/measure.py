"""Predictions with the outputs of some heads replaced: those of the highest scores, or random ones.

Heads are chosen on one half of the texts and taken away on the other, in both directions. At the
target alone, a run takes one token per text; everywhere, the demonstrations are run again too.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import torch
from torch import Tensor
from tqdm import tqdm
from transformers import PreTrainedModel

from anchorflow.analyses.ablation import ABLATION
from anchorflow.analyses.heads import HEADS
from anchorflow.analyses.heads.summarize import WITHOUT_TEXTS, head_matrix, with_difference
from anchorflow.arrays import Array
from anchorflow.config.cell_names import task_of
from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import intervene
from anchorflow.model.batches import Batch, Budget, among, run_batches, runnable
from anchorflow.model.cell import Cell
from anchorflow.model.last_tokens import LastTokens, keep_together
from anchorflow.model.layer_kinds import attention_layers
from anchorflow.model.layers import Resumed, keep_outputs, resume
from anchorflow.model.logits import Answers, check_finite, predictions_of, target_logits
from anchorflow.model.prefix import compute_prefix, shared_token_ids
from anchorflow.model.size import Cost, Prompts
from anchorflow.model.target_attention import (
    RecordOutputs,
    RecordSums,
    ReplaceOutputs,
    means_over_classes,
)
from anchorflow.model.tokenizer import token_groups
from anchorflow.random_draws import generator, halves
from anchorflow.schemas.frames import frame_schema, keyed

Heads = dict[int, list[int]]  # by layer


class Setting(NamedTuple):
    """Which heads are replaced, where, and by what."""

    score: str
    control: bool
    draw: int
    where: str
    by: str
    share: float


INTACT = Setting("none", False, 0, "none", "none", 0.0)
ALONE = INTACT._replace(score="alone")


def settings_of(spec: Mapping[str, Any]) -> list[Setting]:
    """All requested settings, in the order of the configuration."""
    kinds = [(False, 0), *((True, draw) for draw in range(spec["draws"]))]
    return [
        Setting(score, control, draw, where, by, share)
        for score, where, by, share in product(
            spec["scores"], spec["where"], spec["by"], spec["shares"]
        )
        for control, draw in kinds
        if not (where == "everywhere" and by == "other")
    ]


def cost(prompts: Prompts, spec: Mapping[str, Any], depth: int) -> Cost:
    """One token per text and setting, or all tokens if heads are replaced everywhere."""
    settings = settings_of(spec)
    everywhere = sum(setting.where == "everywhere" for setting in settings)
    # Everywhere, demonstrations run for either half of the texts, and once for their means.
    again = everywhere * (2 * prompts.demonstrations + prompts.asked)
    return Cost(
        prompts.once * (2 if everywhere else 1) + prompts.asked + again,
        steps=2 * (len(settings) - everywhere),
        copies=2,
    )


def highest(scores: Array, share: float) -> list[tuple[int, int]]:
    """Layer and head of the highest scores of [L, H], at least one; NaN is never among them."""
    number = max(1, round(share * scores.size))
    order = np.argsort(-np.nan_to_num(scores, nan=-np.inf), axis=None, kind="stable")[:number]
    chosen = [divmod(int(place), scores.shape[1]) for place in order]
    return [place for place in chosen if not np.isnan(scores[place])]


def random_like(
    chosen: Sequence[tuple[int, int]],
    heads: int,
    random: np.random.Generator,
    excluded: Sequence[tuple[int, int]] = (),
) -> list[tuple[int, int]]:
    """As many random heads of the same layers, others than the chosen ones as far as there are.

    Those that are excluded from the choice are drawn only after all others.
    """
    drawn = []
    for layer in sorted({layer for layer, _ in chosen}):
        of_layer = [head for at, head in chosen if at == layer]
        last = [head for at, head in excluded if at == layer]
        others = random.permutation(np.setdiff1d(np.arange(heads), of_layer + last)).tolist()
        others += random.permutation(last).tolist() + random.permutation(of_layer).tolist()
        drawn += [(layer, head) for head in others[: len(of_layer)]]
    return drawn


class Chooser:
    """The heads of a setting, for the texts of one half, chosen by the scores on the other."""

    def __init__(self, heads: pl.DataFrame, half_of: pl.DataFrame) -> None:
        self._heads, self._half_of = heads, half_of
        self._known: dict[tuple[str, int], Array] = {}
        self._shape = heads["layer"].n_unique(), heads["head"].n_unique()
        self._keys = heads.select("task", "seed").row(0)

    def heads(self, setting: Setting, half: int) -> Heads:
        """By layer; empty if the score is defined for no head.

        Of the score "a without b", the heads of the highest a among those that are not of the
        highest b.
        """
        score, _, other = setting.score.partition(" without ")
        scores = self._scores(score, 1 - half).copy()
        excluded = highest(self._scores(other, 1 - half), setting.share) if other else []
        for place in excluded:
            scores[place] = np.nan
        chosen = highest(scores, setting.share)
        if setting.control:
            task, seed = self._keys
            purpose = (setting.score, str(setting.share), half, setting.draw)
            random = generator(seed, task_of(task), "ablation", *purpose)
            chosen = random_like(chosen, self._shape[1], random, excluded)
        found: Heads = {}
        for layer, head in chosen:
            found.setdefault(layer, []).append(head)
        return found

    def _scores(self, score: str, half: int) -> Array:
        """Mean scores [L, H] on one half of the texts."""
        if (score, half) not in self._known:
            rows = with_difference(self._heads.filter(score=score))
            if score not in WITHOUT_TEXTS:
                rows = rows.join(self._half_of.filter(half=half), on="example", how="semi")
            if rows.is_empty():
                raise InputError(
                    f"ablation.scores: no head has a {score}; add its group to heads.scores, and "
                    "measure at least two texts."
                )
            values = head_matrix(rows, "difference")
            # NaN for a head without a value, which is then never chosen.
            means: Array = np.ma.masked_invalid(values).mean(0).filled(np.nan)
            self._known[score, half] = means.reshape(self._shape)
        return self._known[score, half]


class _Intact:
    """The intact run: last tokens, heads' outputs, layers' outputs, and logits."""

    def __init__(self, model: PreTrainedModel, tokens: LastTokens) -> None:
        self._model, self.tokens = model, tokens
        recorded = RecordOutputs()
        depth = len(attention_layers(model.config))
        with keep_outputs(model, range(depth)) as kept, intervene(tokens, recorded):
            self.logits = tokens.vocabulary_logits(model)
        self._kept: dict[int, Resumed] = kept
        first_of = torch.tensor(token_groups(tokens.label_tokens.tolist()))
        classes = first_of[tokens.labels.cpu()]
        self._instead: dict[str, dict[int, Tensor]] = {
            "mean": {at: means_over_classes(of, classes) for at, of in recorded.found.items()},
            "zero": {at: torch.zeros_like(of) for at, of in recorded.found.items()},
            "other": {at: of.roll(-1, 0) for at, of in recorded.found.items()},
        }

    def at_target(self, heads: Heads, by: str, rows: Tensor) -> Tensor:
        """Logits of some prompts with heads' outputs replaced at the target, [R, vocabulary]."""
        instead = {layer: of[rows] for layer, of in self._instead[by].items() if layer in heads}
        replaced = ReplaceOutputs(instead, heads)
        below, tokens = min(heads) - 1, self.tokens.select(rows)
        if below < 0:
            with intervene(tokens, replaced):
                return tokens.vocabulary_logits(self._model)
        with resume(self._model, self._kept[below].select(rows)), intervene(tokens, replaced):
            return tokens.vocabulary_logits(self._model)


@torch.no_grad()
def measure_ablation(
    model: PreTrainedModel,
    prompts: pl.DataFrame,
    heads: pl.DataFrame,
    settings: Sequence[Setting],
    batch_tokens: int,
    examples: Collection[int] | None = None,
) -> pl.DataFrame:
    """Predictions without some heads, for prompts with fixed demonstrations.

    The intact run, with and without demonstrations, is added to ``settings``.
    """
    chosen = runnable(prompts, "fixed")
    measured = among(chosen, examples)
    parts = [pl.DataFrame(schema=frame_schema(ABLATION))]
    if measured.is_empty():
        return parts[0]
    keys = measured.select("model", "task", "seed").row(0, named=True)
    token_ids, budget = shared_token_ids(chosen), Budget(batch_tokens)
    tokens = keep_together(model, measured, compute_prefix(model, token_ids), budget)
    intact = _Intact(model, tokens)
    half_of = halves(measured["example"], keys["seed"])
    halved = {
        half: torch.tensor([tokens.examples.index(text) for text in rows["example"]])
        for (half,), rows in half_of.group_by("half")
    }
    chooser = Chooser(heads, half_of)
    whole = torch.arange(tokens.size)

    def add(setting: Setting, rows: Tensor, logits: Tensor, number: int) -> None:
        parts.append(_frame(setting, intact, rows, logits, number, keys))

    add(INTACT, whole, intact.logits, 0)
    add(ALONE, whole, _alone(model, measured, tokens.examples, budget), 0)
    means: dict[int, Tensor] = {}
    for setting in tqdm(settings, desc="ablation", unit="setting", mininterval=1):
        if setting.where == "everywhere" and not means:
            means = _means_of_tokens(model, token_ids, measured, budget)
        for half, rows in sorted(halved.items()):
            taken = chooser.heads(setting, int(half)) if len(halved) > 1 else {}
            if not taken:
                continue
            if setting.where == "target":
                logits = intact.at_target(taken, setting.by, rows)
            else:
                some = measured.filter(
                    pl.col("example").is_in([tokens.examples[row] for row in rows.tolist()])
                )
                zero = setting.by == "zero"
                instead = {at: torch.zeros_like(of) if zero else of for at, of in means.items()}
                logits = _everywhere(model, token_ids, some, taken, instead, budget)
                rows = torch.tensor([tokens.examples.index(text) for text in some["example"]])
            add(setting, rows, logits, sum(map(len, taken.values())))
    order = ABLATION.keys[3:]
    return pl.concat(parts).sort(order)


def _frame(
    setting: Setting,
    intact: _Intact,
    rows: Tensor,
    logits: Tensor,
    number: int,
    keys: Mapping[str, Any],
) -> pl.DataFrame:
    tokens: Any = intact.tokens.select(rows)  # has what predictions need of a batch
    check_finite(logits, tokens.examples)
    found = Answers.of(logits, tokens.label_tokens, 1)
    before = intact.logits[rows].log_softmax(-1)
    divergence = (before.exp() * (before - logits.log_softmax(-1))).sum(-1)
    constants = {name: pl.lit(value) for name, value in setting._asdict().items()}
    frame = predictions_of(tokens, found).with_columns(
        divergence=pl.Series(divergence.double().tolist()), heads=pl.lit(number), **constants
    )
    return keyed(frame, keys, ABLATION)


def _alone(
    model: PreTrainedModel, measured: pl.DataFrame, examples: Sequence[int], budget: Budget
) -> Tensor:
    """Logits [B, vocabulary] of the queries without demonstrations, after the first token."""
    start = measured["query_start"]
    rows = zip(measured["token_ids"].to_list(), start, strict=True)
    ids = [row[:1] + row[query:] for row, query in rows]
    shorter = start - 1
    alone = measured.with_columns(
        pl.Series("token_ids", ids, dtype=measured.schema["token_ids"]),
        tokens=pl.col("tokens") - shorter,
        target_position=pl.col("target_position") - shorter,
    )
    logits: dict[int, Tensor] = {}
    for batch, of_batch in run_batches(
        alone, budget, model.device, lambda batch: target_logits(model, batch)
    ):
        logits |= dict(zip(batch.examples, of_batch, strict=True))
    return torch.stack([logits[example] for example in examples])


def _means_of_tokens(
    model: PreTrainedModel, token_ids: Sequence[int], measured: pl.DataFrame, budget: Budget
) -> dict[int, Tensor]:
    """Heads' mean outputs over all tokens of the intact prompts, [H, D] by layer."""
    recorded = RecordSums()
    prefix = compute_prefix(model, token_ids, observing=[recorded])
    sums, count = dict(recorded.sums), len(token_ids)

    def measure(batch: Batch) -> tuple[dict[int, Tensor], int]:
        real = torch.arange(batch.input_ids.shape[1], device=batch.lengths.device)
        real = real < batch.lengths[:, None]
        of_batch = RecordSums(real)
        with intervene(prefix, of_batch):
            target_logits(model, batch)
        return of_batch.sums, int(real.sum())

    for _, (of_batch, number) in run_batches(
        measured, budget, model.device, measure, prefix.tokens
    ):
        sums = {layer: sums[layer] + of for layer, of in of_batch.items()}
        count += number
    return {layer: total / count for layer, total in sums.items()}


def _everywhere(
    model: PreTrainedModel,
    token_ids: Sequence[int],
    some: pl.DataFrame,
    heads: Heads,
    instead: Mapping[int, Tensor],
    budget: Budget,
) -> Tensor:
    """Logits [R, vocabulary] of some prompts with heads' outputs replaced at all tokens."""
    replaced = ReplaceOutputs(instead, heads, everywhere=True)
    prefix = compute_prefix(model, token_ids, replaced)
    logits: dict[int, Tensor] = {}

    def measure(batch: Batch) -> Tensor:
        with intervene(prefix, replaced):
            return target_logits(model, batch)

    for batch, of_batch in run_batches(some, budget, model.device, measure, prefix.tokens):
        logits |= dict(zip(batch.examples, of_batch, strict=True))
    return torch.stack([logits[example] for example in some["example"].to_list()])


def measure(cell: Cell) -> None:
    heads, settings = cell.read("heads", HEADS), settings_of(cell.spec)
    cell.measure(ABLATION, cost, partial(measure_ablation, heads=heads, settings=settings))
