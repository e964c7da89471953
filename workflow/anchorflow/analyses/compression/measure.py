"""Predictions from compressed demonstrations: only some of their keys and values are kept.

[A] §3.2 keeps those of formatting and of whole label words; the other ``methods`` keep other
positions, or run them as a text of their own. All keep the instruction, if there is one, since it
is no demonstration. In addition, attention to the label words is re-weighted by β, with everything
kept and with the anchors alone.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from math import ceil
from typing import Any, NamedTuple

import polars as pl
import torch
from torch import Tensor
from tqdm import tqdm
from transformers import PreTrainedModel

from anchorflow.analyses.compression import COMPRESSION
from anchorflow.analyses.compression.methods import (
    Demonstrations,
    Kept,
    method,
    with_instruction,
    without_instruction,
)
from anchorflow.analyses.compression.observations import Asking, declares, observe
from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import OF_WHOLE_PROMPTS, PADDING, intervene
from anchorflow.model.batches import Batch, Budget, among, run_batches, runnable
from anchorflow.model.beta_fit import answers_under, beta_of, reweighted_states
from anchorflow.model.cell import Cell
from anchorflow.model.last_tokens import FIRST_TOKEN, Words, keep_all_but_last, leave_room
from anchorflow.model.layer_kinds import runs_again, selects_keys
from anchorflow.model.logits import (
    TOP_TOKENS,
    Answers,
    answers_after,
    check_finite,
    predictions_of,
    target_states,
)
from anchorflow.model.prefix import Prefix, compute_prefix, shared_token_ids
from anchorflow.model.size import Cost, Prompts
from anchorflow.model.tokenizer import open_tokenizer
from anchorflow.prepare.positions import positions_without_demonstrations
from anchorflow.schemas.beta import BETA
from anchorflow.schemas.frames import frame_schema, keyed
from anchorflow.schemas.prompts import PROMPTS

log = logging.getLogger(__name__)


class Setting(NamedTuple):
    """A method and its budget: a ``share`` of the prefix or, by default, the number of anchors.

    The instruction is kept in addition and not counted.
    """

    method: str
    share: float | None = None
    draw: int = 0


TEXT_ANCHOR = "text_anchor"
OF_STATES = (
    "Some of its layers carry a state from token to token, or select keys among all of a prompt, "
    "so kept keys and values alone do not hold what the demonstrations say "
    "(docs/reference/models.md)."
)
FULL, ANCHOR = Setting("full"), Setting("hidden_anchor")
FIRST_ONLY = Setting("first_only")  # no demonstrations: all that there is to retain is lost
BOTH = (FULL, FIRST_ONLY)  # what every method is compared with
# Re-weighted settings, by the cache whose predictions they change.
REWEIGHTED = {FULL: Setting("reweighted"), ANCHOR: Setting("reweighted_anchor")}


class Cache(NamedTuple):
    """The keys and values that queries attend to in place of the demonstrations."""

    prefix: Prefix
    first_position: int  # position id of the first token of a query

    @property
    def kept(self) -> int:
        """Tokens kept in each layer and head; if these differ, their mean, rounded up."""
        counts = [
            Fraction(layer.tokens)
            if layer.positions is None
            else Fraction(int((layer.positions < PADDING).sum()), len(layer.positions))
            for layer in self.prefix.layers.values()
        ]
        return ceil(sum(counts) / len(counts))


def compress(
    model: PreTrainedModel,
    demonstrations: Demonstrations,
    setting: Setting,
    positions: str = "original",
) -> Cache:
    """The cache that a setting produces.

    With the ``positions`` ``original``, queries keep their position ids, as in full prompts; with
    ``zero`` they begin at position 0, as in the authors' code for GPT2-XL. Anchors kept as text are
    a prompt of their own, so the query always follows them directly.
    """
    first = demonstrations.prefix.tokens if positions == "original" else 0
    if setting == FULL:
        return Cache(demonstrations.prefix, demonstrations.prefix.tokens)
    kept = None if setting == FIRST_ONLY else kept_of(demonstrations, setting)
    if kept is None:
        left = torch.tensor(positions_without_demonstrations(demonstrations.prompt))[None]
        kept = dict.fromkeys(demonstrations.prefix.layers, left)
    elif declares(setting.method, "AS_TEXT"):
        return _as_text(model, demonstrations, kept)
    return Cache(demonstrations.prefix.keep(kept), first)


def kept_of(demonstrations: Demonstrations, setting: Setting) -> Kept | None:
    """The positions in the prompt that a setting keeps; None if no whole demonstration fits."""
    choosable, rest = without_instruction(demonstrations)
    budget = len(choosable.anchors())
    if setting.share is not None:
        # Rounded down; 1e-9 because products such as 0.29 * 100 lie just below the whole number.
        budget = max(1, int(setting.share * choosable.prefix.tokens + 1e-9))
    chosen = method(setting.method)(choosable, budget, setting.draw)
    if min(indices.shape[1] for indices in chosen.values()) == 0:
        if declares(setting.method, "WHOLE"):
            return None
        raise InputError(
            f"{setting.method} keeps no token of the demonstrations of "
            f"{demonstrations.prompt['task']}; leave this method out."
        )
    return with_instruction(chosen, rest, demonstrations.prompt)


def _as_text(model: PreTrainedModel, demonstrations: Demonstrations, kept: Kept) -> Cache:
    """The cache of kept tokens, the same in every layer, run as a text of their own."""
    tokens = demonstrations.prefix.tokens
    text = compute_prefix(
        model, [demonstrations.prompt["token_ids"][p] for p in next(iter(kept.values()))[0]]
    )
    # In units of the whole prefix, so that sliding windows see the text directly before the query.
    positions = torch.arange(tokens - text.tokens, tokens)[None]
    layers = {
        number: replace(layer, positions=positions.to(layer.key.device))
        for number, layer in text.layers.items()
    }
    return Cache(replace(text, tokens=tokens, layers=layers), text.tokens)


def _asked(
    demonstrations: Demonstrations, setting: Setting, prompts: pl.DataFrame
) -> Iterator[tuple[Demonstrations, pl.DataFrame]]:
    """The demonstrations with the prompts that are answered from the same cache.

    A method that chooses for each query has one cache for all queries with the same choice.
    """
    if setting in BOTH or not declares(setting.method, "PER_QUERY"):
        yield demonstrations, prompts
        return
    shown: dict[tuple[int, ...], Demonstrations] = {}
    rows: dict[tuple[int, ...], list[int]] = {}
    for row, prompt in enumerate(prompts.iter_rows(named=True)):
        own = replace(demonstrations, prompt=prompt)
        kept = kept_of(own, setting)
        choice = () if kept is None else tuple(next(iter(kept.values()))[0].tolist())
        shown.setdefault(choice, own)
        rows.setdefault(choice, []).append(row)
    for choice, own in shown.items():
        yield own, prompts[rows[choice]]


def settings_of(methods: Sequence[str], shares: Sequence[float], draws: int) -> list[Setting]:
    """All requested settings, of which the first keeps everything and the second nothing.

    Methods at the number of anchors follow, random ones once per draw, then the sweep of shares.
    """
    at_anchors = [
        Setting(name, draw=draw)
        for name in methods
        for draw in range(draws if declares(name, "RANDOM") else 1)
    ]
    swept = [
        Setting(name, share) for share in shares for name in methods if declares(name, "ANY_BUDGET")
    ]
    return [FULL, FIRST_ONLY, *at_anchors, *swept]


def cost(prompts: Prompts, spec: Mapping[str, Any], _: int) -> Cost:
    """The demonstrations once, and again for what methods look at; queries after every cache."""
    caches = len(settings_of(spec["methods"], spec["shares"], spec["draws"]))
    looks = ("REPEATS", "QUERIES")
    runs = 1 + sum(any(declares(name, look) for name in spec["methods"]) for look in looks)
    return Cost(runs * prompts.demonstrations + caches * prompts.asked)


def measure_compression(
    model: PreTrainedModel,
    prompts: pl.DataFrame,
    betas: Mapping[Setting, Tensor],
    spec: Mapping[str, Any],
    batch_tokens: int,
    examples: Collection[int] | None = None,
    scoring: Mapping[str, Any] = FIRST_TOKEN,
    asking: Asking | None = None,
) -> pl.DataFrame:
    """Predictions for every test text that fits the context, from every compressed cache.

    If β was fitted, ``prompts`` hold the training texts, too; these are not run, but share the
    prefix that β was fitted on. ``betas``, each [L, H, N], go by the cache on which they were
    fitted, one of ``REWEIGHTED``. ``asking`` are the words with which kvzip asks to repeat.
    """
    words = Words.scored(prompts, scoring)
    prompts = leave_room(prompts, words)
    test, training = runnable(prompts, "fixed"), runnable(prompts, "training")
    measured = among(test, examples)
    parts = [pl.DataFrame(schema=frame_schema(COMPRESSION))]
    waiting: list[_Waiting] = []
    if measured.is_empty():
        return parts[0]
    if selects_keys(model.config):  # not even the first token alone can be kept
        raise InputError(OF_WHOLE_PROMPTS)
    keys = test.select("model", "task", "seed").row(0, named=True)
    settings = settings_of(spec["methods"], spec["shares"], spec["draws"])
    if runs_again(model.config):
        log.warning("Only text is compressed for model %s. %s", keys["model"], OF_STATES)
        settings = [way for way in settings if way in BOTH or declares(way.method, "AS_TEXT")]
        betas = {setting: beta for setting, beta in betas.items() if setting in settings}
    for fitted_on, beta in betas.items():
        if beta.numel() == 0:
            raise InputError(
                "results/reweighting/{model}/{task}/{seed} has no β for ".format(**keys)
                + f"the cache {fitted_on.method}; delete that folder and run again."
            )
    token_ids = shared_token_ids(pl.concat([test, training]))
    methods = {setting.method for setting in settings} - {FIRST_ONLY.method}
    demonstrations = observe(model, token_ids, test.row(0, named=True), methods, asking)
    budget = Budget(batch_tokens)
    with tqdm(total=len(settings), desc="compression", unit="cache", mininterval=1) as progress:
        for setting in settings:
            for shown, asked in _asked(demonstrations, setting, measured):
                cache = compress(model, shown, setting, spec["positions"])
                constants = {**keys, "kept": cache.kept, "shared": len(token_ids)}
                given = (setting, betas.get(setting), words, constants)
                answer = partial(_answer, model, cache, *given)
                for _, answered in run_batches(
                    asked, budget, model.device, answer, cache.prefix.tokens, cache.first_position
                ):
                    parts += answered.rows
                    waiting += answered.waiting
            progress.update()
    # The head runs once for all caches: reading its weights takes as long as a few prompts do.
    states, rows = [states for states, _ in waiting], [rows for _, rows in waiting]
    label_tokens = torch.tensor(test["label_tokens"][0].to_list())
    answers = answers_after(model, states, label_tokens, TOP_TOKENS)
    parts += [make(each) for make, each in zip(rows, answers, strict=True)]
    return pl.concat(parts).sort("example", "method", "share", "draw", nulls_last=False)


_Waiting = tuple[Tensor, Callable[[Answers], pl.DataFrame]]  # a batch's last states, and its rows


class _Answered(NamedTuple):
    """Predictions for one batch from one cache, and states on which the head has yet to run."""

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
    """Predictions for one batch from one cache, without β and, if given, with it."""
    ways = {setting: None} if beta is None else {setting: None, REWEIGHTED[setting]: beta}
    rows_of = {way: partial(_rows, batch, way, constants) for way in ways}
    if beta is None and words is None:
        with intervene(cache.prefix):
            return _Answered([], [(target_states(model, batch), rows_of[setting])])
    tokens = keep_all_but_last(model, batch, cache.prefix)
    if words is None:
        return _Answered(
            [],
            [
                (reweighted_states(model, tokens, weights), rows_of[way])
                for way, weights in ways.items()
            ],
        )
    rows = [
        rows_of[way](answers_under(model, tokens, weights, words, TOP_TOKENS))
        for way, weights in ways.items()
    ]
    return _Answered(rows, [])


def _rows(
    batch: Batch, way: Setting, constants: Mapping[str, Any], answers: Answers
) -> pl.DataFrame:
    for values in (answers.largest, answers.scores):
        check_finite(values, batch.examples, way in REWEIGHTED.values())
    names = {name: pl.lit(value) for name, value in way._asdict().items()}
    rows = predictions_of(batch, answers).with_columns(
        pl.Series("top_tokens", answers.top_tokens.tolist()), **names
    )
    return keyed(rows, constants, COMPRESSION)


def measure(cell: Cell) -> None:
    spec, prompts, betas = cell.spec, cell.read("prompts", PROMPTS), {}
    if cell.input.training:  # absent for untrained twins, for which β is not fitted
        prompts = prompts.vstack(cell.read("training", PROMPTS))
    for cache, name in ((FULL, "beta"), (ANCHOR, "beta_anchor")):
        if cell.input[name]:
            betas[cache] = beta_of(cell.read(name, BETA))
    examples = cell.examples(prompts)
    run = among(prompts.filter(demonstrations="fixed"), examples)
    model = cell.model(run, cost, spec)
    compression = measure_compression(
        model,
        prompts,
        betas,
        spec,
        cell.batch_tokens,
        examples,
        cell.scoring,
        Asking.of(open_tokenizer(cell.input.tokenizer)) if cell.input.tokenizer else None,
    )
    cell.write(COMPRESSION, compression, cell.described(compression=spec))
