"""The prompts of a task, as rows of token ids with the positions of their parts.

A prompt consists of an instruction, if any, the demonstrations, and the query, which ends where its
label word would follow; a separator, by default a newline, is between them.

In the chat format, the model's chat template writes the text between demonstrations instead, see
:mod:`anchorflow.prepare.chat`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from anchorflow.config.cell_names import labels_key
from anchorflow.config.errors import InputError
from anchorflow.model.tokenizer import open_tokenizer, read_architecture
from anchorflow.prepare.chat import Chat
from anchorflow.prepare.label_words import (
    drawn_label_words,
    warn_of_label_words,
    with_distinct_labels,
    word_tokens,
)
from anchorflow.prepare.locating import PromptError, Tokenizer, locate
from anchorflow.prepare.template import PromptTexts, Template
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.prompts import PROMPTS


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
    """Tokenize every sampled prompt of one task and seed for one model.

    The common beginning of all label words becomes part of the template, see
    :func:`with_distinct_labels`. A prompt is never truncated; one that is longer than the model's
    context of ``context`` tokens is kept as a row with the reason in ``skipped``.

    Parameters
    ----------
    task : str, optional
        Name of the prompts' task, if ``labels`` are not the words of the samples' own task.
    whole_words : bool
        Whether whole label words are scored; else their first tokens must differ.

    Returns
    -------
    DataFrame
        Columns of ``PROMPTS``, in the samples' order.

    Raises
    ------
    InputError
        If the label words can't be distinguished, or one has no tokens of its own in a prompt.
    """
    task = task or str(samples["task"][0])
    template, labels = with_distinct_labels(task, tokenizer, template, labels, model, whole_words)
    words = word_tokens(task, tokenizer, template, labels, model, whole_words)
    warn_of_label_words(task, tokenizer, template, labels, words, model)
    columns = samples.select("demonstration_texts", "demonstration_labels", "text")
    contents: list[PromptTexts] = [
        (list(zip(texts, (labels[label] for label in of_texts), strict=True)), query)
        for texts, of_texts, query in columns.iter_rows()
    ]
    where = [f"test text {example}" for example in samples["example"]]
    rows = []
    for sample, segments, place in zip(
        samples.iter_rows(named=True), template.compose(contents, where), where, strict=True
    ):
        try:
            prompt = locate(tokenizer, template, segments, place)
        except PromptError as error:
            raise InputError(
                f"{labels_key(task)}: for model {model} and {place}, {error}"
            ) from None
        length = len(prompt.token_ids)
        rows.append(
            {
                "model": model,
                "task": task,
                **{key: sample[key] for key in ("seed", "demonstrations", "example", "label")},
                "tokens": length,
                "skipped": f"{length} tokens exceed the context of {context}"
                if length > context
                else None,
                "context": context,
                **vars(prompt),
                "demonstration_labels": sample["demonstration_labels"],
                "label_tokens": [word[0] for word in words],
                "word_tokens": words,
            }
        )
    return pl.DataFrame(rows, schema=frame_schema(PROMPTS))


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

        Parameters
        ----------
        wording : mapping
            ``template``, ``fields``, ``instruction``, ``separator``, ``labels``, and ``chat``, the
            configuration key that asks for the chat format, if any; for words that are drawn,
            also ``drawn``, the cell and the seed, see :func:`drawn_label_words`.
        whole_words : bool
            Whether label words may begin alike, for which only whole words are scored.

        Raises
        ------
        InputError
            If words can't be drawn.
        """
        parts = {name: wording[name] for name in ("fields", "instruction", "separator")}
        chat = Chat.open(folder, wording["chat"], model) if wording["chat"] else None
        tokenizer = open_tokenizer(folder)
        template = Template.parse(wording["template"], **parts, chat=chat)
        labels: Sequence[str] = wording["labels"]
        if "drawn" in wording:
            cell, seed = wording["drawn"]
            labels = drawn_label_words(cell, seed, tokenizer, template, labels, model)
        return cls(
            tokenizer,
            template,
            labels,
            model,
            read_architecture(folder)["context"],
            task,
            whole_words,
        )

    def build(self, samples: pl.DataFrame) -> pl.DataFrame:
        """The samples' prompts, with the columns of ``PROMPTS``."""
        wording = (self.tokenizer, self.template, self.labels)
        return build_prompts(
            samples, *wording, self.model, self.context, self.task, self.whole_words
        )
