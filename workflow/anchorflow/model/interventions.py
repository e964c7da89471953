"""Runs with changed attention, and predictions under the settings of an analysis, one run each.

A run differs from the untouched one in the demonstrations, the queries, or both, and starts from
its first changed layer. An analysis defines its settings and the :class:`IntervenedRun` of each;
they run several at a time, on all prompts with fixed demonstrations.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Generic, NamedTuple, TypeVar

import polars as pl
from torch import Tensor
from tqdm import tqdm
from transformers import PreTrainedModel

from anchorflow.config.errors import InputError
from anchorflow.config.table import Table
from anchorflow.model.attention_function import Intervention, LayerPrefix, intervene
from anchorflow.model.batches import Batch, Budget, among, run_batches, runnable
from anchorflow.model.last_tokens import FIRST_TOKEN, Ended, OnRows, Words, leave_room
from anchorflow.model.layer_kinds import runs_again
from anchorflow.model.layers import Resumed, keep_outputs, resume
from anchorflow.model.logits import (
    Answers,
    answers_after,
    check_finite,
    logits_after,
    predictions_of,
    target_states,
)
from anchorflow.model.prefix import KeepKeys, Prefix
from anchorflow.schemas.frames import frame_schema, keyed

CUTS_AT_ONCE = 8  # runs whose demonstrations' keys and values are in memory at the same time

Setting = TypeVar("Setting", bound=NamedTuple)


class IntervenedRun(NamedTuple):
    """A run of queries that differs from the untouched one from ``start`` on.

    Up to the output of layer ``start - 1``, the queries are as in the untouched run; ``changed``
    makes another output of it, from which the layers above run.
    """

    prefix: Prefix | None
    start: int
    interventions: tuple[Intervention, ...] = ()
    on_words: OnRows = lambda _: ()  # interventions on the tokens of label words that follow
    changed: Callable[[Resumed], Resumed] = lambda output: output


def answers_of_runs(
    model: PreTrainedModel,
    batch: Batch,
    untouched: Prefix | None,
    runs: Sequence[IntervenedRun],
    top_tokens: int,
    words: Words | None = None,
) -> list[Answers]:
    """The model's answers in the untouched run, then in each intervened run.

    ``batch`` are queries without the shared demonstrations, or whole prompts if there are none.
    ``untouched`` is the prefix of the shared demonstrations in the untouched run. ``words`` are
    label words of several tokens, to be scored as a whole.
    """
    states: list[Tensor] = []
    answers: list[Answers] = []
    of_queries: dict[int, LayerPrefix] = {}  # keys and values in the untouched run

    def follow(run: IntervenedRun) -> Ended | None:
        kept = KeepKeys()
        before = () if run.prefix is None else (run.prefix,)
        keeping = () if words is None else (kept,)
        with intervene(*before, *keeping, *run.interventions):
            states.append(target_states(model, batch))
        if words is None:
            return None
        ended = Ended.batch(model, batch, kept, run.prefix, of_queries, run.interventions)
        of_queries.update(of_queries or ended.between)
        return ended

    def score(run: IntervenedRun, ended: Ended | None) -> None:
        if words is not None and ended is not None:
            logits = logits_after(model, states.pop())
            scores = words.scores(model, ended, logits, run.on_words)
            found = Answers.of(logits, batch.label_tokens, top_tokens)
            answers.append(found._replace(scores=scores))

    def start_of(run: IntervenedRun) -> IntervenedRun:
        """From the first layer on, where demonstrations run again before the queries."""
        changed = run.prefix is not untouched
        return run._replace(start=0) if changed and runs_again(model.config) else run

    plain, runs = IntervenedRun(untouched, 0), [start_of(run) for run in runs]
    needed = {run.start - 1 for run in runs if run.start > 0}
    with keep_outputs(model, needed) as kept:
        ended = follow(plain)
    score(plain, ended)
    for run in runs:
        above = run.changed(kept[run.start - 1]) if run.start > 0 else None
        with nullcontext() if above is None else resume(model, above):
            ended = follow(run)
        score(run, ended)
    answers += answers_after(model, states, batch.label_tokens, top_tokens)
    for found in answers:
        check_finite(found.largest, batch.examples)
    return answers


def predictions_by_kind(
    model: PreTrainedModel,
    prompts: pl.DataFrame,
    plain: pl.DataFrame,
    table: Table,
    batch_tokens: int,
    words: Words | None,
    prefix: Prefix | None = None,
) -> pl.DataFrame:
    """Predictions for runnable prompts by kind, ``demonstrations``, without any intervention.

    The kind is in the last key of ``table``. Those of ``plain``, which has it and the columns that
    are kept, come first. ``prefix`` are demonstrations that all prompts share. Rows are in the
    order of examples, and of kinds in ``plain`` and ``prompts``.
    """
    column, before = table.keys[-1], 0 if prefix is None else prefix.tokens

    def measure(batch: Batch) -> pl.DataFrame:
        (answers,) = answers_of_runs(model, batch, prefix, (), 1, words)
        return predictions_of(batch, answers)

    kinds = prompts["demonstrations"].unique(maintain_order=True).to_list()
    parts, budget = [plain], Budget(batch_tokens)
    total = prompts["skipped"].null_count()
    with tqdm(total=total, desc=table.name, unit="prompt", mininterval=1) as progress:
        for kind in kinds:
            run = runnable(prompts, kind)
            for batch, rows in run_batches(run, budget, model.device, measure, before):
                named = rows.with_columns(pl.lit(kind).alias(column)).select(plain.columns)
                parts.append(named.cast(plain.schema))
                progress.update(batch.size)
    order = {
        kind: place
        for place, kind in enumerate([*plain[column].unique(maintain_order=True), *kinds])
    }
    place = pl.col(column).replace_strict(order, return_dtype=pl.Int32)
    return pl.concat(parts).sort("example", place)


class BatchRun(NamedTuple, Generic[Setting]):
    """A batch's run under one setting, and the model's answers."""

    setting: Setting
    run: IntervenedRun | None  # None for the untouched run
    answers: Answers


class Interventions(Generic[Setting]):
    """The settings of an analysis, for the prompts of one model, task, and seed."""

    untouched: Prefix  # the shared demonstrations of the untouched run
    unmodified: Sequence[Setting]  # those whose rows are the untouched run's
    settings: Sequence[Setting]  # all others that are possible with these prompts

    def intervened(self, setting: Setting) -> Callable[[Batch], IntervenedRun]:
        """Apply a setting to the demonstrations; the function returned does so to each batch."""
        raise NotImplementedError

    def columns(self, batch: Batch, ran: BatchRun[Setting], plain: Answers) -> Mapping[str, Any]:
        """Further columns of a run; may record what :meth:`check` needs."""
        return {}

    def check(self) -> None:
        """Raise InputError if the runs did not change what they should."""


def measure_interventions(
    model: PreTrainedModel,
    prompts: pl.DataFrame,
    begin: Callable[[pl.DataFrame], Interventions[Setting]],
    table: Table,
    batch_tokens: int,
    examples: Collection[int] | None = None,
    scoring: Mapping[str, Any] = FIRST_TOKEN,
    top_tokens: int = 1,
    at_once: int = CUTS_AT_ONCE,
) -> pl.DataFrame:
    """Predictions of every runnable prompt with fixed demonstrations, under every setting.

    ``begin`` makes the interventions from all runnable prompts. The columns of ``table`` other
    than keys, setting and prediction are ``top_tokens`` or come from :meth:`Interventions.columns`.
    The demonstrations of ``at_once`` settings are in memory at the same time. Neither
    ``batch_tokens``, the most query tokens in a batch, nor ``examples``, the test texts to predict,
    affects a result.
    """
    stage = table.name
    vocabulary = model.get_output_embeddings().weight.shape[0]
    if top_tokens > vocabulary:
        raise InputError(
            f"{stage}.top_tokens: {top_tokens} is more than the {vocabulary} tokens of the "
            "model's vocabulary; lower it."
        )
    words = Words.scored(prompts, scoring)
    chosen = runnable(leave_room(prompts, words), "fixed")
    measured = among(chosen, examples)
    parts = [pl.DataFrame(schema=frame_schema(table))]
    if measured.is_empty():
        return parts[0]
    runs = begin(chosen)
    keys = measured.select("model", "task", "seed").row(0, named=True)
    budget = Budget(batch_tokens)
    # One group even without settings: the untouched run belongs to the first.
    places = range(0, max(1, len(runs.settings)), at_once)

    def measure_group(some: Sequence[Setting], unmodified: Sequence[Setting]) -> None:
        intervened = [runs.intervened(setting) for setting in some]

        def measure(batch: Batch) -> list[pl.DataFrame]:
            of_batch = [run(batch) for run in intervened]
            plain, *answers = answers_of_runs(
                model, batch, runs.untouched, of_batch, top_tokens, words
            )
            ran = [BatchRun(setting, None, plain) for setting in unmodified]
            ran += [BatchRun(*run) for run in zip(some, of_batch, answers, strict=True)]
            return [
                keyed(_rows(batch, run, runs.columns(batch, run, plain)), keys, table)
                for run in ran
            ]

        for batch, rows in run_batches(
            measured, budget, model.device, measure, runs.untouched.tokens
        ):
            parts.extend(rows)
            progress.update(batch.size)

    total = len(places) * len(measured)
    with tqdm(total=total, desc=stage, unit="example", mininterval=1) as progress:
        for at in places:  # the untouched run's rows are kept once, with the first group
            measure_group(runs.settings[at : at + at_once], () if at else runs.unmodified)
    runs.check()
    order = [key for key in table.keys if key not in keys]
    return pl.concat(parts).sort(order)


def _rows(batch: Batch, ran: BatchRun[Setting], columns: Mapping[str, Any]) -> pl.DataFrame:
    constants = {name: pl.lit(value) for name, value in ran.setting._asdict().items()}
    return predictions_of(batch, ran.answers).with_columns(
        pl.Series("top_tokens", ran.answers.top_tokens.tolist()), **constants, **columns
    )
