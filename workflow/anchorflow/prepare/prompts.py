"""The prompts of a task, as rows of token ids with the positions of their parts.

A prompt consists of an instruction, if any, the demonstrations, and the query, which ends where its
label word would follow; a separator, by default a newline, is between them.

In the chat format, the model's chat template writes the text between demonstrations instead, see
:mod:`anchorflow.prepare.chat`.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from anchorflow.config.cell_names import SHUFFLED, labels_key, words_of
from anchorflow.config.errors import InputError
from anchorflow.model.tokenizer import find_chat_template, open_tokenizer, read_architecture
from anchorflow.prepare.chat import Chat
from anchorflow.prepare.control_tokens import Segment, Tokenizer, unknown_token
from anchorflow.prepare.label_words import (
    drawn_label_words,
    warn_of_label_words,
    with_distinct_labels,
    word_tokens,
)
from anchorflow.prepare.samples import with_shuffled_labels
from anchorflow.prepare.template import (
    PromptError,
    PromptTexts,
    Template,
    Wording,
    check_wording_tokens,
    locate,
    separators_to_try,
    unknown_parts,
)
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.schemas.samples import SAMPLES
from anchorflow.store.cell import Cell

log = logging.getLogger(__name__)


def build_prompts(
    samples: pl.DataFrame,
    tokenizer: Tokenizer,
    template: Template,
    labels: Sequence[str],
    model: str,
    context: int,
    task: str | None = None,
    whole_words: bool = False,
) -> pl.DataFrame:
    """Tokenize every sampled prompt of one task and seed for one model, in the samples' order.

    The common beginning of all label words becomes part of the template, see
    :func:`with_distinct_labels`. A prompt is never truncated; one that is longer than the model's
    context of ``context`` tokens is kept as a row with the reason in ``skipped``. So is one in
    which a label word has not the tokens that are scored; it has no tokens and no positions. If all
    prompts are skipped so, the error proposes a separator that works.

    ``task`` names the prompts' task if ``labels`` are not the words of the samples' own task.
    """
    task = task or str(samples["task"][0])
    wording = Wording(task, tokenizer, template, labels, model)
    check_wording_tokens(wording)
    wording = with_distinct_labels(wording, whole_words)
    template, labels, words = wording.template, wording.labels, word_tokens(wording, whole_words)
    warn_of_label_words(wording, words)
    columns = samples.select("demonstration_texts", "demonstration_labels", "text")
    contents: list[PromptTexts] = [
        (list(zip(texts, (labels[label] for label in of_texts), strict=True)), query)
        for texts, of_texts, query in columns.iter_rows()
    ]
    where = [f"test text {example}" for example in samples["example"]]
    composed = template.compose(contents, where)
    rows = []
    for sample, segments in zip(samples.iter_rows(named=True), composed, strict=True):
        of_label = [words[label] for label in sample["demonstration_labels"]]
        prompt, reason = _located(tokenizer, template, segments, of_label)
        length = len(prompt["token_ids"]) if prompt else None
        if length and length > context:
            reason = f"{length} tokens exceed the context of {context}"
        rows.append(
            {
                "model": model,
                "task": task,
                **{key: sample[key] for key in ("seed", "demonstrations", "example", "label")},
                "tokens": length,
                "skipped": reason,
                "context": context,
                **prompt,
                "demonstration_labels": sample["demonstration_labels"],
                "label_tokens": [word[0] for word in words],
                "word_tokens": words,
            }
        )
    unlocated = [row["skipped"] for row in rows if row["tokens"] is None]
    if rows and len(unlocated) == len(rows):
        others = [(other, other.compose(contents[:1])[0]) for other in separators_to_try(template)]
        of_label = [words[label] for label in samples["demonstration_labels"][0]]
        works = (o for o, segments in others if _located(tokenizer, o, segments, of_label)[0])
        remedy = next((f'; "separator: {json.dumps(o.separator)}" works' for o in works), "")
        raise InputError(
            f"{labels_key(task)}: for model {model} and {where[0]}, {unlocated[0]}{remedy}."
        )
    if unlocated:
        log.warning(
            "%s: for model %s, %d of %d prompts are skipped: %s.",
            *(task, model, len(unlocated), len(rows), unlocated[0]),
        )
    unknown = sum(
        unknown_token(tokenizer) in (row.get("token_ids") or ())
        and bool(unknown_parts(tokenizer, template, segments))
        for row, segments in zip(rows, composed, strict=True)
    )
    if unknown:
        log.warning(
            "%s: for model %s, %d of %d prompts have characters that the tokenizer doesn't know.",
            *(task, model, unknown, len(rows)),
        )
    return pl.DataFrame(rows, schema=frame_schema(PROMPTS))


def _located(
    tokenizer: Tokenizer,
    template: Template,
    segments: Sequence[Segment],
    words: Sequence[Sequence[int]],
) -> tuple[dict[str, Any], str | None]:
    """A prompt whose label words have these tokens; or nothing, and the reason."""
    try:
        prompt = locate(tokenizer, template, segments)
    except PromptError as error:
        return {}, str(error).rstrip(".")
    spans = zip(prompt.label_positions, prompt.label_ends, words, strict=True)
    for place, (first, end, word) in enumerate(spans, 1):
        if prompt.token_ids[first:end] != list(word):
            return {}, (
                f"the label word of demonstration {place} has other tokens than those that are "
                "scored, because of the text after it"
            )
    return vars(prompt), None


@dataclass(frozen=True)
class PromptBuilder:
    """Turns samples of one task into prompts for one model; see :func:`build_prompts`."""

    tokenizer: Tokenizer
    template: Template
    labels: Sequence[str]
    model: str
    context: int
    task: str | None = None
    whole_words: bool = True

    @classmethod
    def open(
        cls,
        folder: str | Path,
        wording: Mapping[str, Any],
        model: str,
        task: str | None = None,
        whole_words: bool = True,
    ) -> "PromptBuilder":
        """Open the tokenizer in a resolved folder, for the wording of a task.

        ``wording`` has ``template``, ``fields``, ``instruction``, ``separator``, ``labels``, and
        ``chat``, the configuration key that asks for the chat format, if any; for words that are
        drawn, also ``drawn``, the cell and the seed, see :func:`drawn_label_words`.
        """
        parts = {name: wording[name] for name in ("fields", "instruction", "separator")}
        chat = Chat.open(folder, wording["chat"], model) if wording["chat"] else None
        tokenizer, source = open_tokenizer(folder), find_chat_template(folder)
        template = Template.parse(
            wording["template"], **parts, chat=chat, chat_template=source.source if source else ""
        )
        labels: Sequence[str] = wording["labels"]
        if "drawn" in wording:
            cell, seed = wording["drawn"]
            labels = drawn_label_words(Wording(cell, tokenizer, template, labels, model), seed)
        context = read_architecture(folder)["context"]
        return cls(tokenizer, template, labels, model, context, task, whole_words)

    def build(self, samples: pl.DataFrame) -> pl.DataFrame:
        """The samples' prompts, with the columns of ``PROMPTS``."""
        wording = (self.tokenizer, self.template, self.labels)
        return build_prompts(
            samples, *wording, self.model, self.context, self.task, self.whole_words
        )


def prepare(job: Cell) -> None:
    """Build and tokenize the prompts of one model, task, and seed."""
    names, whole_words = job.wildcards, job.config["scoring"] == "whole_word"
    folder = job.input.tokenizer
    builder = PromptBuilder.open(folder, job.spec, names.model, names.task, whole_words)
    samples = job.read("samples", SAMPLES)
    if words_of(names.task) == SHUFFLED:
        samples = with_shuffled_labels(samples)
    job.write(PROMPTS, builder.build(samples), job.spec)
