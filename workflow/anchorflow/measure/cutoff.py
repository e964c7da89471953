"""Predictions when queries see no demonstrations from some layer on.

If a model has read off the task and the answer below some layer, it needs the demonstrations' keys
and values no longer above it (Sia et al. 2024). The prompt's first token, which draws attention for
being first, and an instruction stay visible: without them, models break whatever they have read.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from math import ceil
from typing import Any, NamedTuple

import polars as pl
import torch
from tqdm import tqdm
from transformers import PreTrainedModel

from anchorflow.config.cells import task_of
from anchorflow.config.errors import InputError
from anchorflow.measure.attention import label_predictions
from anchorflow.measure.token_kinds import label_word_tokens
from anchorflow.model.batches import Batch, Budget, among, first_texts, run_batches, runnable
from anchorflow.model.language_model import Answers
from anchorflow.model.prefix import Prefix, compute_prefix, shared_token_ids
from anchorflow.model.size import Cost, Prompts
from anchorflow.model.variants import CUTS_AT_ONCE, Variant, answers_of_variants
from anchorflow.model.word_scores import FIRST_TOKEN, Words, leave_room
from anchorflow.prepare.prompts import instruction_positions
from anchorflow.random_draws import generator
from anchorflow.schemas.cutoff import CUTOFF
from anchorflow.schemas.frames import frame_schema, keyed

log = logging.getLogger(__name__)


class Setting(NamedTuple):
    """What queries still see of the demonstrations from ``layer`` on."""

    sees: str
    draw: int
    layer: int


def settings_of(sees: Sequence[str], draws: int, every: int, depth: int) -> list[Setting]:
    """All requested settings; each ends with ``layer`` of ``depth``, the unmodified run.

    Parameters
    ----------
    every : int
        Step between the layers, from 0 on.
    depth : int
        The model's number of layers.
    """
    return [
        Setting(name, draw, layer)
        for name in sees
        for draw in range(draws if name == "random" else 1)
        for layer in [*range(0, depth, every), depth]
    ]


def seen_positions(setting: Setting, prompt: Mapping[str, Any], shared: int) -> list[int]:
    """The tokens of the demonstrations that queries still see, increasing.

    Parameters
    ----------
    prompt : mapping
        A row of ``PROMPTS``.
    shared : int
        Number of tokens that all prompts of the cell share.
    """
    always = {0, *instruction_positions(prompt)}
    labels = {*chain.from_iterable(label_word_tokens(prompt))}
    if setting.sees == "first":
        return sorted(always)
    if setting.sees == "label":
        return sorted(t for t in always | labels if t < shared)
    random = generator(prompt["seed"], task_of(prompt["task"]), "cutoff", setting.draw)
    others = [token for token in range(shared) if token not in always | labels]
    drawn = random.choice(others, min(len(labels), len(others)), replace=False)
    return sorted(always | {*drawn.tolist()})


def without_demonstrations(prefix: Prefix, seen: Sequence[int], layer: int) -> Prefix:
    """The prefix of which, from a layer on, some tokens alone are kept."""
    some = torch.tensor(seen)[None]
    above = prefix.keep({at: some for at in prefix.layers if at >= layer})
    return replace(prefix, layers={**prefix.layers, **above.layers})


def cost(prompts: Prompts, spec: Mapping[str, Any], depth: int) -> Cost:
    """Queries from every layer on from which demonstrations are left out."""
    settings = settings_of(spec["sees"], spec["draws"], spec["every"], depth)
    asked = sum(1 - each.layer / depth for each in settings) + ceil(len(settings) / CUTS_AT_ONCE)
    return Cost(prompts.shown + asked * prompts.asked, copies=1 + CUTS_AT_ONCE)


def measure_cutoff(
    model: PreTrainedModel,
    prompts: pl.DataFrame,
    settings: Sequence[Setting],
    top_tokens: int,
    batch_tokens: int,
    examples: Collection[int] | None = None,
    first: int | None = None,
    scoring: Mapping[str, Any] = FIRST_TOKEN,
) -> pl.DataFrame:
    """Predictions of every runnable prompt with fixed demonstrations, under every setting.

    Parameters
    ----------
    prompts : DataFrame
        ``PROMPTS`` of one model, task, and seed.
    settings : sequence of Setting
        From :func:`settings_of`.
    top_tokens : int
        Number of most likely next tokens to record.
    batch_tokens : int
        Upper bound on query tokens per batch; does not affect the results.
    examples : collection of int, optional
        Predict only these test texts; does not affect their results.
    first : int, optional
        Predict only the first so many test texts.
    scoring : mapping
        What is predicted, see :meth:`Words.scored`.

    Returns
    -------
    DataFrame
        Columns of ``CUTOFF``.

    Raises
    ------
    InputError
        If keys are missing, logits are not finite, ``top_tokens`` exceeds the vocabulary, or
        leaving out all demonstrations changes no answer by a bit.
    """
    vocabulary = model.get_output_embeddings().weight.shape[0]
    if top_tokens > vocabulary:
        raise InputError(
            f"cutoff.top_tokens: {top_tokens} is more than the {vocabulary} tokens of the model's "
            "vocabulary; lower it."
        )
    words = Words.scored(prompts, scoring)
    chosen = runnable(leave_room(prompts, words), "fixed")
    measured = among(first_texts(chosen, first), examples)
    parts = [pl.DataFrame(schema=frame_schema(CUTOFF))]
    if measured.is_empty():
        return parts[0]
    prompt = chosen.row(0, named=True)
    depth: int = model.config.get_text_config().num_hidden_layers
    prefix = compute_prefix(model, shared_token_ids(chosen))
    keys = {name: prompt[name] for name in ("model", "task", "seed")}
    cut = [setting for setting in settings if setting.layer < depth]
    whole = [setting for setting in settings if setting.layer == depth]
    budget, changed = Budget(batch_tokens), False
    with tqdm(total=len(cut), desc="cutoff", unit="run", mininterval=1) as progress:
        for begin in range(0, max(1, len(cut)), CUTS_AT_ONCE):
            some = cut[begin : begin + CUTS_AT_ONCE]
            variants = [_variant(prefix, setting, prompt) for setting in some]
            untouched = whole if begin == 0 else []

            def measure(
                batch: Batch,
                some: Sequence[Setting] = some,
                variants: Sequence[Variant] = variants,
                untouched: Sequence[Setting] = untouched,
            ) -> tuple[list[pl.DataFrame], bool]:
                plain, *others = answers_of_variants(
                    model, batch, prefix, variants, top_tokens, words
                )
                named = [*((s, plain) for s in untouched), *zip(some, others, strict=True)]
                rows = [_rows(batch, setting, each, keys) for setting, each in named]
                return rows, any(_differ(plain, each) for each in others)

            for _, (rows, differ) in run_batches(
                measured, budget, model.device, measure, prefix.tokens
            ):
                parts += rows
                changed |= differ
            progress.update(len(some))
    if cut and not changed:
        raise InputError(
            f"cutoff: leaving the demonstrations of task {task_of(keys['task'])} out changes no "
            f"answer of model {keys['model']}, in whatever layer; the model cannot be measured so."
        )
    return pl.concat(parts).sort("example", "sees", "draw", "layer")


def _variant(prefix: Prefix, setting: Setting, prompt: Mapping[str, Any]) -> Variant:
    seen = seen_positions(setting, prompt, prefix.tokens)
    return Variant(without_demonstrations(prefix, seen, setting.layer), setting.layer)


def _differ(first: Answers, second: Answers) -> bool:
    return not torch.equal(first.scores, second.scores)


def _rows(
    batch: Batch, setting: Setting, answers: Answers, keys: Mapping[str, Any]
) -> pl.DataFrame:
    constants = {name: pl.lit(value) for name, value in setting._asdict().items()}
    frame = label_predictions(batch, answers.scores).with_columns(
        pl.Series("top_tokens", answers.top_tokens.tolist()), **constants
    )
    return keyed(frame, keys, CUTOFF)
