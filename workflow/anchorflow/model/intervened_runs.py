"""Runs of the same queries after changed demonstrations, each from the first changed layer on."""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import NamedTuple

from torch import Tensor
from transformers import PreTrainedModel

from anchorflow.model.answers import Answers, answers_after
from anchorflow.model.attention_function import Intervention, LayerPrefix, intervene
from anchorflow.model.batches import Batch
from anchorflow.model.layers import keep_outputs, resume
from anchorflow.model.logits import check_finite, logits_after, target_states
from anchorflow.model.prefix import KeepKeys, Prefix
from anchorflow.model.word_scores import Ended, OnRows, Words

CUTS_AT_ONCE = 8  # runs whose demonstrations' keys and values are in memory at the same time


class IntervenedRun(NamedTuple):
    """A run of queries that differs from the untouched one from ``start`` on.

    Up to the output of layer ``start - 1``, the queries are as in the untouched run.
    """

    prefix: Prefix | None
    start: int
    interventions: tuple[Intervention, ...] = ()
    on_words: OnRows = lambda _: ()  # interventions on the tokens of label words that follow


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
        ended = Ended.batch(model, batch, kept, run.prefix, of_queries)
        of_queries.update(of_queries or ended.between)
        return ended

    def score(run: IntervenedRun, ended: Ended | None) -> None:
        if words is not None and ended is not None:
            logits = logits_after(model, states.pop())
            scores = words.scores(model, ended, logits, run.on_words)
            found = Answers.of(logits, batch.label_tokens, top_tokens)
            answers.append(found._replace(scores=scores))

    plain = IntervenedRun(untouched, 0)
    needed = {run.start - 1 for run in runs if run.start > 0}
    with keep_outputs(model, needed) as kept:
        ended = follow(plain)
    score(plain, ended)
    for run in runs:
        with resume(model, kept[run.start - 1]) if run.start > 0 else nullcontext():
            ended = follow(run)
        score(run, ended)
    answers += answers_after(model, states, batch.label_tokens, top_tokens)
    for found in answers:
        check_finite(found.largest, batch.examples)
    return answers
