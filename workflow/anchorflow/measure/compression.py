"""Predictions from compressed demonstrations, of which only some keys and values are kept.

[A] §3.2 keeps those of formatting and of whole label words; the other ``compression_methods`` keep
other positions. All keep the instruction, if there is one: it is no demonstration. In addition, the
anchors are kept as text (``text_anchor``), and attention to the label words is re-weighted by β,
with everything kept and with the anchors alone.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import polars as pl
import torch
from torch import Tensor
from tqdm import tqdm
from transformers import PreTrainedModel

from anchorflow.config.errors import InputError
from anchorflow.config.registry import declared
from anchorflow.measure.attention import TOP_TOKENS
from anchorflow.measure.beta_fit import reweighted_states, scores_and_logits
from anchorflow.measure.compression_methods import (
    FOLDER,
    Demonstrations,
    method,
    with_instruction,
    without_instruction,
)
from anchorflow.model.attention_function import Attention, AttentionCall, attention_rows, intervene
from anchorflow.model.batches import Batch, Budget, among, run_batches, runnable
from anchorflow.model.language_model import Answers, answers_after, check_finite, target_states
from anchorflow.model.last_tokens import keep_all_but_last
from anchorflow.model.prefix import Prefix, compute_prefix, shared_token_ids
from anchorflow.model.size import Cost, Prompts
from anchorflow.model.word_scores import FIRST_TOKEN, Words, leave_room
from anchorflow.schemas.compression import COMPRESSION
from anchorflow.schemas.frames import frame_schema, keyed

OBSERVED = 32  # last tokens of the prefix whose attention methods can use


class Setting(NamedTuple):
    """A method and its budget: a ``share`` of the prefix, or else as many tokens as anchors.

    Neither counts the instruction, which is kept in addition.
    """

    method: str
    share: float | None = None
    draw: int = 0


FULL, ANCHOR = Setting("full"), Setting("hidden_anchor")
TEXT_ANCHOR = "text_anchor"  # runs other text instead of keeping positions, so it has no file
# Settings of re-weighting, by the cache that they use.
REWEIGHTED = {FULL: Setting("reweighted"), ANCHOR: Setting("reweighted_anchor")}


class Cache(NamedTuple):
    """What queries attend to in place of the demonstrations."""

    prefix: Prefix
    first_position: int  # position id of the first token of a query

    @property
    def kept(self) -> int:
        """Tokens kept in each layer and head; if layers differ, their mean, rounded up."""
        layers = self.prefix.layers.values()
        return -(-sum(layer.tokens for layer in layers) // len(layers))


class _Observe:
    """The intervention that records attention from the last tokens to the whole prefix."""

    def __init__(self, tokens: int) -> None:
        self._tokens = tokens
        self.rows: dict[int, Tensor] = {}

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        tokens = call.query.shape[2]
        rows = torch.arange(max(0, tokens - self._tokens), tokens, device=call.query.device)
        self.rows[call.layer] = attention_rows(call, rows[None])[0]  # [H, W, P]
        return attention(call)


def observe(
    model: PreTrainedModel, token_ids: Sequence[int], prompt: Mapping[str, Any]
) -> Demonstrations:
    """Run the demonstrations once and record what methods can use.

    Parameters
    ----------
    token_ids : sequence of int
        The tokens that all prompts share.
    prompt : mapping
        Any of the prompts, a row of ``PROMPTS``.
    """
    observed = _Observe(OBSERVED)
    prefix = compute_prefix(model, token_ids, observed)
    return Demonstrations(prompt, prefix, observed.rows)


def compress(
    model: PreTrainedModel, shown: Demonstrations, setting: Setting, positions: str = "original"
) -> Cache:
    """The cache that a setting produces.

    Parameters
    ----------
    positions : str
        ``original``: queries keep their positions after the whole prefix, as in full prompts;
        ``zero``: they begin at position 0, as in the authors' code for GPT2-XL. Anchors as text
        are always followed directly by the query.

    Raises
    ------
    InputError
        If the method keeps no token.
    """
    if setting.method == TEXT_ANCHOR:
        return _as_text(model, shown)
    if setting == FULL:
        return Cache(shown.prefix, shown.prefix.tokens)
    choosable, rest = without_instruction(shown)
    budget = len(choosable.anchors())
    if setting.share is not None:
        budget = max(1, int(setting.share * choosable.prefix.tokens + 1e-9))
    chosen = method(setting.method)(choosable, budget, setting.draw)
    if min(indices.shape[1] for indices in chosen.values()) == 0:
        raise InputError(
            f"{setting.method} keeps no token of the demonstrations of {shown.prompt['task']}; "
            "leave this method out."
        )
    kept = with_instruction(chosen, rest, shown.prompt)
    return Cache(shown.prefix.keep(kept), shown.prefix.tokens if positions == "original" else 0)


def _as_text(model: PreTrainedModel, shown: Demonstrations) -> Cache:
    """The anchors run as a text of their own, which ends where the query begins."""
    tokens = shown.prefix.tokens
    text = compute_prefix(model, [shown.prompt["token_ids"][p] for p in shown.anchors()])
    positions = torch.arange(tokens - text.tokens, tokens)[None]
    layers = {
        number: replace(layer, positions=positions.to(layer.key.device))
        for number, layer in text.layers.items()
    }
    return Cache(Prefix(tokens, layers), text.tokens)


def settings_of(methods: Sequence[str], shares: Sequence[float], draws: int) -> list[Setting]:
    """All requested settings, beginning with everything kept."""
    at_anchors = [
        Setting(name, draw=draw)
        for name in methods
        for draw in range(draws if _declares(name, "RANDOM") else 1)
    ]
    swept = [
        Setting(name, share)
        for share in shares
        for name in methods
        if _declares(name, "ANY_BUDGET")
    ]
    return [FULL, *at_anchors, *swept]


def _declares(name: str, constant: str) -> bool:
    """Whether a method's file sets this constant; ``text_anchor`` has no file."""
    return name != TEXT_ANCHOR and bool(declared(FOLDER, name, constant, False))


def cost(prompts: Prompts, spec: Mapping[str, Any], _: int) -> Cost:
    """Queries after every cache."""
    caches = len(settings_of(spec["methods"], spec["shares"], spec["draws"]))
    return Cost(prompts.shown + caches * prompts.asked)


def measure_compression(
    model: PreTrainedModel,
    prompts: pl.DataFrame,
    betas: Mapping[Setting, Tensor],
    spec: Mapping[str, Any],
    batch_tokens: int,
    examples: Collection[int] | None = None,
    scoring: Mapping[str, Any] = FIRST_TOKEN,
) -> pl.DataFrame:
    """Predictions for every runnable test text from every compressed cache.

    Parameters
    ----------
    prompts : DataFrame
        ``PROMPTS`` of one model, task, and seed: test texts with fixed demonstrations, and, if β
        was fitted, the training texts, which are not run.
    betas : mapping of Setting to Tensor [L, H, N]
        β by the cache that it was fitted on, of those in ``REWEIGHTED``.
    spec : mapping
        Section ``compression`` of the configuration.
    batch_tokens : int
        Upper bound on query tokens per batch; does not affect the results.
    examples : collection of int, optional
        Predict only these test texts; does not affect their results.
    scoring : mapping
        What is predicted, see :meth:`Words.scored`.

    Returns
    -------
    DataFrame
        Columns of ``COMPRESSION``.

    Raises
    ------
    InputError
        If a method keeps no token, or logits are not finite.
    """
    words = Words.scored(prompts, scoring)
    prompts = leave_room(prompts, words)
    test, training = runnable(prompts, "fixed"), runnable(prompts, "training")
    measured = among(test, examples)
    parts = [pl.DataFrame(schema=frame_schema(COMPRESSION))]
    waiting: list[_Waiting] = []
    if measured.is_empty():
        return parts[0]
    keys = test.select("model", "task", "seed").row(0, named=True)
    for fitted_on, beta in betas.items():
        if beta.numel() == 0:
            raise InputError(
                "results/reweighting/{model}/{task}/{seed} has no β for ".format(**keys)
                + f"the cache {fitted_on.method}; delete that folder and run again."
            )
    token_ids = shared_token_ids(pl.concat([test, training]))
    shown = observe(model, token_ids, test.row(0, named=True))
    settings = settings_of(spec["methods"], spec["shares"], spec["draws"])
    budget = Budget(batch_tokens)
    with tqdm(total=len(settings), desc="compression", unit="cache", mininterval=1) as progress:
        for setting in settings:
            cache = compress(model, shown, setting, spec["positions"])
            constants = {**keys, "kept": cache.kept, "shared": len(token_ids)}
            answer = partial(_answer, model, cache, setting, betas.get(setting), words, constants)
            for _, answered in run_batches(
                measured, budget, model.device, answer, cache.prefix.tokens, cache.first_position
            ):
                parts += answered.rows
                waiting += answered.waiting
            progress.update()
    states, rows = [states for states, _ in waiting], [rows for _, rows in waiting]
    label_tokens = torch.tensor(test["label_tokens"][0].to_list())
    answers = answers_after(model, states, label_tokens, TOP_TOKENS)
    parts += [make(each) for make, each in zip(rows, answers, strict=True)]
    return pl.concat(parts).sort("example", "method", "share", "draw", nulls_last=False)


_Waiting = tuple[Tensor, Callable[[Answers], pl.DataFrame]]  # states of a batch, and its rows


class _Answered(NamedTuple):
    """Predictions of one batch from one cache, and those for which the head has yet to run."""

    rows: list[pl.DataFrame]
    waiting: list[_Waiting]


@torch.no_grad()
def _answer(
    model: PreTrainedModel,
    cache: Cache,
    setting: Setting,
    beta: Tensor | None,
    words: Words | None,
    constants: Mapping[str, Any],
    batch: Batch,
) -> _Answered:
    """Predictions of one batch from one cache, without β and, if given, with it."""
    ways = {setting: None} if beta is None else {setting: None, REWEIGHTED[setting]: beta}
    rows_of = {way: partial(_rows, batch, way, constants) for way in ways}
    if beta is None and words is None:
        with intervene(cache.prefix):
            return _Answered([], [(target_states(model, batch), rows_of[setting])])
    tokens = keep_all_but_last(model, batch, cache.prefix)
    if words is None:
        return _Answered(
            [],
            [(reweighted_states(model, tokens, each), rows_of[way]) for way, each in ways.items()],
        )
    rows = []
    for way, each in ways.items():
        scores, logits = scores_and_logits(model, tokens, each, words)
        rows.append(rows_of[way](Answers.of(logits, batch.label_tokens, TOP_TOKENS), scores))
    return _Answered(rows, [])


def _rows(
    batch: Batch,
    way: Setting,
    constants: Mapping[str, Any],
    answers: Answers,
    scores: Tensor | None = None,
) -> pl.DataFrame:
    """Columns of ``COMPRESSION`` of one batch.

    Label probabilities are of ``scores`` [B, C], by default the logits of the words' first tokens.
    """
    if scores is None:
        scores = answers.label_logits
    for each in (answers.largest, scores):
        check_finite(each, batch.examples, way in REWEIGHTED.values())
    probabilities = scores.softmax(-1).cpu()
    rows = pl.DataFrame(
        {
            "example": batch.examples,
            "label": batch.labels.tolist(),
            "prediction": probabilities.argmax(-1).tolist(),
            "probabilities": probabilities.tolist(),
            "top_tokens": answers.top_tokens.tolist(),
        }
    )
    names = {name: pl.lit(value) for name, value in way._asdict().items()}
    return keyed(rows.with_columns(**names), constants, COMPRESSION)
