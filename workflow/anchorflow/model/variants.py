"""Queries run again and again after changed demonstrations, from the first layer that differs."""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import NamedTuple

from torch import Tensor
from transformers import PreTrainedModel

from anchorflow.model.attention_function import Intervention, LayerPrefix, intervene
from anchorflow.model.batches import Batch
from anchorflow.model.language_model import (
    Answers,
    answers_after,
    check_finite,
    keep_outputs,
    logits_after,
    resume,
    target_states,
)
from anchorflow.model.prefix import KeepKeys, Prefix
from anchorflow.model.word_scores import Ended, OnRows, Words

CUTS_AT_ONCE = 8  # variants whose keys and values of the demonstrations are kept at once


class Variant(NamedTuple):
    """A run of queries that differs from the untouched one from ``start`` on.

    Up to the output of layer ``start - 1``, the queries are as in the untouched run.
    """

    prefix: Prefix
    start: int
    interventions: tuple[Intervention, ...] = ()
    on_words: OnRows = lambda _: ()  # interventions on the tokens of label words that follow


def answers_of_variants(
    model: PreTrainedModel,
    batch: Batch,
    untouched: Prefix,
    variants: Sequence[Variant],
    top_tokens: int,
    words: Words | None = None,
) -> list[Answers]:
    """What the model answers: in the untouched run, then in each variant.

    Parameters
    ----------
    batch : Batch
        Queries, without the shared demonstrations.
    untouched : Prefix
        The shared demonstrations of the untouched run.
    top_tokens : int
        How many of the most likely tokens are wanted.
    words : Words, optional
        Label words of several tokens, to be scored as a whole.

    Raises
    ------
    InputError
        If a logit is not finite.
    """
    states: list[Tensor] = []
    answers: list[Answers] = []
    own: dict[int, LayerPrefix] = {}  # keys and values of the queries in the untouched run

    def run(variant: Variant) -> Ended | None:
        kept = KeepKeys()
        keeping = () if words is None else (kept,)
        with intervene(variant.prefix, *keeping, *variant.interventions):
            states.append(target_states(model, batch))
        if words is None:
            return None
        ended = Ended.batch(model, batch, kept, variant.prefix, own)
        own.update(own or ended.between)
        return ended

    def score(variant: Variant, ended: Ended | None) -> None:
        if words is not None and ended is not None:
            logits = logits_after(model, states.pop())
            scores = words.scores(model, ended, logits, variant.on_words)
            found = Answers.of(logits, batch.label_tokens, top_tokens)
            answers.append(found._replace(scores=scores))

    plain = Variant(untouched, 0)
    needed = {variant.start - 1 for variant in variants if variant.start > 0}
    with keep_outputs(model, needed) as kept:
        ended = run(plain)
    score(plain, ended)
    for variant in variants:
        with resume(model, kept[variant.start - 1]) if variant.start > 0 else nullcontext():
            ended = run(variant)
        score(variant, ended)
    answers += answers_after(model, states, batch.label_tokens, top_tokens)
    for found in answers:
        check_finite(found.largest, batch.examples)
    return answers
