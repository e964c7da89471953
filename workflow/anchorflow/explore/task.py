"""A study's model with the wording and the demonstrations of one of its tasks, to be asked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl
import torch
from transformers import PreTrainedModel

from anchorflow.config.configuration import check_wording
from anchorflow.config.errors import InputError
from anchorflow.config.text_fields import FIELD_SEPARATOR
from anchorflow.model.opening import open_for_job
from anchorflow.model.size import Cost, Prompts
from anchorflow.model.tokenizer import open_tokenizer
from anchorflow.one_prompt.asked import AskedPrompt, ask_after
from anchorflow.prepare.prompts import PromptBuilder
from anchorflow.prepare.template import Template
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.schemas.samples import SAMPLES
from anchorflow.store.parquet import read_settings, read_table

Fields = Sequence[str]  # a text, by field
_KEPT = 4  # prompts whose plain answers are remembered


@dataclass(frozen=True)
class Asked:
    """What a prompt is made of: its wording, demonstrations as (fields, label), and query."""

    template: str
    labels: tuple[str, ...]
    demonstrations: tuple[tuple[tuple[str, ...], int], ...]
    query: tuple[str, ...]


def targets(config: Mapping[str, Any], model: str, task: str) -> list[str]:
    """What Snakemake has to prepare for a model and a task, in a run's folder."""
    seed = config["seeds"][0]
    return [f"results/models/{model}", f"results/prompts/{model}/{task}/{seed}.parquet"]


class OpenedTask:
    """A model and a task of a study, whose folder ``results`` has what :func:`targets` names."""

    def __init__(self, config: Mapping[str, Any], model: str, task: str, folder: Path) -> None:
        self.name, self.task, self._seed = model, task, config["seeds"][0]
        built = folder / f"prompts/{model}/{task}/{self._seed}.parquet"
        samples = read_table(folder / f"samples/{task}/{self._seed}.parquet", SAMPLES)
        self._wording = read_settings(built)
        whole_words = config["scoring"] == "whole_word"
        resolved = folder / "tokenizers" / model
        self._tokenizer = open_tokenizer(resolved)
        self._builder = PromptBuilder.open(resolved, self._wording, model, task, whole_words)
        self.fields: tuple[str, ...] = tuple(self._wording["fields"])
        first = samples.filter(demonstrations="fixed").row(0, named=True)
        demonstrations = zip(
            first["demonstration_texts"], first["demonstration_labels"], strict=True
        )
        self.drawn = Asked(
            self._wording["template"],
            tuple(self._wording["labels"]),
            tuple((self._split(text), label) for text, label in demonstrations),
            self._split(first["text"]),
        )
        prompts = read_table(built, PROMPTS).filter(demonstrations="fixed").head(1)
        self.model: PreTrainedModel = open_for_job(
            folder / "models" / model,
            config["compute"],
            torch.get_num_threads(),
            prompts,
            _forward_and_back,
        )
        self.ask = lru_cache(_KEPT)(self._ask)

    def _split(self, text: str) -> tuple[str, ...]:
        return tuple(self._builder.template.contents(text))

    def _ask(self, asked: Asked) -> AskedPrompt:
        """The prompt, to be asked about; raises InputError if it can't be built."""
        check_wording(
            self.task,
            asked.template,
            asked.labels,
            self.fields,
            chat=self._builder.template.chat is not None,
        )
        known = self._builder.template
        around = {name: getattr(known, name) for name in ("fields", "instruction", "separator")}
        template = Template.parse(
            asked.template, **around, chat=known.chat, chat_template=known.chat_template
        )
        builder = replace(self._builder, template=template, labels=asked.labels)

        def row(demonstrations: Sequence[tuple[Fields, int]]) -> dict[str, Any]:
            sample = {
                **{"task": self.task, "seed": self._seed, "demonstrations": "fixed"},
                **{"example": 0, "label": 0, "demonstration_rows": []},
                "text": FIELD_SEPARATOR.join(asked.query),
                "demonstration_texts": [FIELD_SEPARATOR.join(text) for text, _ in demonstrations],
                "demonstration_labels": [label for _, label in demonstrations],
            }
            samples = pl.DataFrame([sample], schema=frame_schema(SAMPLES))
            (prompt,) = builder.build(samples).iter_rows(named=True)
            if prompt["skipped"] is not None:
                raise InputError(f"the prompt can't be run: {prompt['skipped']}; change it.")
            return prompt

        return ask_after(self.model, self._tokenizer, asked.labels, asked.demonstrations, row)


def _forward_and_back(prompts: Prompts, _: Mapping[str, Any], __: int) -> Cost:
    """Every prompt once, forward and backward."""
    return Cost(prompts.whole, prompts.whole, whole=True)
