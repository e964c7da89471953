"""Predictions under the settings of an intervention, one intervened run per setting.

An analysis defines its settings and the :class:`IntervenedRun` of each. This module runs them,
several at a time, on all prompts with fixed demonstrations.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import polars as pl
import pyarrow as pa
from tqdm import tqdm
from transformers import PreTrainedModel

from anchorflow.config.errors import InputError
from anchorflow.model.answers import Answers, predictions_of
from anchorflow.model.batches import Batch, Budget, among, run_batches, runnable
from anchorflow.model.intervened_runs import CUTS_AT_ONCE, IntervenedRun, answers_of_runs
from anchorflow.model.prefix import Prefix
from anchorflow.model.word_scores import FIRST_TOKEN, Words, leave_room
from anchorflow.schemas.frames import frame_schema, keyed

Setting = TypeVar("Setting", bound=NamedTuple)


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
    schema: pa.Schema,
    batch_tokens: int,
    examples: Collection[int] | None = None,
    scoring: Mapping[str, Any] = FIRST_TOKEN,
    top_tokens: int = 1,
    at_once: int = CUTS_AT_ONCE,
) -> pl.DataFrame:
    """Predictions of every runnable prompt with fixed demonstrations, under every setting.

    ``begin`` makes the interventions from all runnable prompts. The columns of ``schema`` other
    than keys, setting and prediction are ``top_tokens`` or come from :meth:`Interventions.columns`.
    The demonstrations of ``at_once`` settings are in memory at the same time. Neither
    ``batch_tokens``, the most query tokens in a batch, nor ``examples``, the test texts to predict,
    affects a result.
    """
    stage = schema.metadata[b"table"].decode()
    vocabulary = model.get_output_embeddings().weight.shape[0]
    if top_tokens > vocabulary:
        raise InputError(
            f"{stage}.top_tokens: {top_tokens} is more than the {vocabulary} tokens of the "
            "model's vocabulary; lower it."
        )
    words = Words.scored(prompts, scoring)
    chosen = runnable(leave_room(prompts, words), "fixed")
    measured = among(chosen, examples)
    parts = [pl.DataFrame(schema=frame_schema(schema))]
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
                keyed(_rows(batch, run, runs.columns(batch, run, plain)), keys, schema)
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
    order = [key for key in schema.metadata[b"keys"].decode().split() if key not in keys]
    return pl.concat(parts).sort(order)


def _rows(batch: Batch, ran: BatchRun[Setting], columns: Mapping[str, Any]) -> pl.DataFrame:
    constants = {name: pl.lit(value) for name, value in ran.setting._asdict().items()}
    return predictions_of(batch, ran.answers).with_columns(
        pl.Series("top_tokens", ran.answers.top_tokens.tolist()), **constants, **columns
    )
