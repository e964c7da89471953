"""Predictions under settings of an intervention, each of which is one variant of the untouched run.

An analysis says what its settings are and which :class:`Variant` each of them makes; here they are
run, some of them at a time, on all prompts with fixed demonstrations.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import polars as pl
import pyarrow as pa
from tqdm import tqdm
from transformers import PreTrainedModel

from anchorflow.config.errors import InputError
from anchorflow.measure.attention import label_predictions
from anchorflow.model.batches import Batch, Budget, among, first_texts, run_batches, runnable
from anchorflow.model.language_model import Answers
from anchorflow.model.prefix import Prefix
from anchorflow.model.variants import CUTS_AT_ONCE, Variant, answers_of_variants
from anchorflow.model.word_scores import FIRST_TOKEN, Words, leave_room
from anchorflow.schemas.frames import frame_schema, keyed

Setting = TypeVar("Setting", bound=NamedTuple)


class Ran(NamedTuple, Generic[Setting]):
    """A run of a batch."""

    setting: Setting
    variant: Variant | None  # None for the untouched run
    answers: Answers


class Interventions(Generic[Setting]):
    """The settings of an analysis, for the prompts of one model, task, and seed."""

    untouched: Prefix  # the shared demonstrations of the untouched run
    unmodified: Sequence[Setting]  # by these, the rows of the untouched run are named
    settings: Sequence[Setting]  # all others, as far as prompts have what they need

    def variant(self, setting: Setting) -> Callable[[Batch], Variant]:
        """What the setting makes of the demonstrations, and of each batch of queries."""
        raise NotImplementedError

    def columns(self, batch: Batch, ran: Ran[Setting], plain: Answers) -> Mapping[str, Any]:
        """Further columns of a run; may note what is checked at the end."""
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
    first: int | None = None,
    scoring: Mapping[str, Any] = FIRST_TOKEN,
    top_tokens: int = 1,
    at_once: int = CUTS_AT_ONCE,
) -> pl.DataFrame:
    """Predictions of every runnable prompt with fixed demonstrations, under every setting.

    Parameters
    ----------
    prompts : DataFrame
        ``PROMPTS`` of one model, task, and seed.
    begin
        From all runnable prompts to the interventions.
    schema : pyarrow.Schema
        The table, whose columns beside the keys, the setting and the prediction are
        ``top_tokens`` or come from :meth:`Interventions.columns`.
    batch_tokens : int
        Upper bound on query tokens per batch; does not affect the results.
    examples : collection of int, optional
        Predict only these test texts; does not affect their results.
    first : int, optional
        Predict only the first so many test texts.
    scoring : mapping
        What is predicted, see :meth:`Words.scored`.
    top_tokens : int
        Number of most likely next tokens to record.
    at_once : int
        Settings whose demonstrations are kept together.

    Raises
    ------
    InputError
        If keys are missing, logits are not finite, ``top_tokens`` exceeds the vocabulary, or runs
        did not change what they should.
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
    measured = among(first_texts(chosen, first), examples)
    parts = [pl.DataFrame(schema=frame_schema(schema))]
    if measured.is_empty():
        return parts[0]
    runs = begin(chosen)
    keys = measured.select("model", "task", "seed").row(0, named=True)
    budget = Budget(batch_tokens)
    # Without any setting, the untouched run is a group.
    places = range(0, max(1, len(runs.settings)), at_once)

    def measure_group(some: Sequence[Setting], unmodified: Sequence[Setting]) -> None:
        variants = [runs.variant(setting) for setting in some]

        def measure(batch: Batch) -> list[pl.DataFrame]:
            of_batch = [variant(batch) for variant in variants]
            plain, *answers = answers_of_variants(
                model, batch, runs.untouched, of_batch, top_tokens, words
            )
            ran = [Ran(setting, None, plain) for setting in unmodified]
            ran += [Ran(*each) for each in zip(some, of_batch, answers, strict=True)]
            return [
                keyed(_rows(batch, each, runs.columns(batch, each, plain)), keys, schema)
                for each in ran
            ]

        for batch, rows in run_batches(
            measured, budget, model.device, measure, runs.untouched.tokens
        ):
            parts.extend(rows)
            progress.update(batch.size)

    total = len(places) * len(measured)
    with tqdm(total=total, desc=stage, unit="example", mininterval=1) as progress:
        for at in places:
            measure_group(runs.settings[at : at + at_once], () if at else runs.unmodified)
    runs.check()
    order = [key for key in schema.metadata[b"keys"].decode().split() if key not in keys]
    return pl.concat(parts).sort(order)


def _rows(batch: Batch, ran: Ran[Setting], columns: Mapping[str, Any]) -> pl.DataFrame:
    constants = {name: pl.lit(value) for name, value in ran.setting._asdict().items()}
    return label_predictions(batch, ran.answers.scores).with_columns(
        pl.Series("top_tokens", ran.answers.top_tokens.tolist()), **constants, **columns
    )
